"""PyTorch's own table of ops and sample arguments as an oracle for ours."""
