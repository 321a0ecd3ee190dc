"""From terms to kernels: what gets memory, what shares a kernel."""
