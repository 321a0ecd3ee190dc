"""The checker of the loop language."""
