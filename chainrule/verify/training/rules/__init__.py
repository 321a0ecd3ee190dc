"""Mistakes of training loops, one or a few to a file."""
