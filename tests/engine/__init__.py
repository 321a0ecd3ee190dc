"""Tensors, their derivatives, dtypes, borders and errors."""
