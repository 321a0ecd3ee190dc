"""Fourier transforms, convolution of whole arrays, window functions."""
