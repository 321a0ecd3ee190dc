"""Functions of neural networks, made of ops."""
