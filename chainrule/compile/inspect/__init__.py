"""What a user sees of a compiled function: measured kernels, limits of the machine, code."""
