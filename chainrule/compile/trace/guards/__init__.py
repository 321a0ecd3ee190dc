"""Guards: what a compiled function reads beside tensors, noted while it is traced."""
