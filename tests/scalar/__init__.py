"""`Value`: gradients of single numbers."""
