"""Returns, targets and policies."""
