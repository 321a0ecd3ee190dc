"""Convolution, pooling, padding, resizing."""
