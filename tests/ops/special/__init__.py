"""Smooth and special functions against mpmath."""
