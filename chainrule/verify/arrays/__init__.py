"""Subjects made of NumPy code written by hand: a forward and a backward, layers, networks."""
