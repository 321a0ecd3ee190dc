"""Functions, layers and networks that are written in NumPy."""
