"""Parameters without a gradient, or without an optimizer."""
