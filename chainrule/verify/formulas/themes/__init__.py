"""The rows of known formulas, by theme."""
