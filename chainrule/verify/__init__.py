"""Verify gradients: which backward is wrong, where, what the mistake is called, its correction."""
