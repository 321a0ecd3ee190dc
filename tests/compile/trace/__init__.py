"""`jit` of functions: what is recorded, what a compiled function reads, control flow."""
