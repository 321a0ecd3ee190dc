"""Scatters, sorting, running sums and extrema."""
