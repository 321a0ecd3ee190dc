"""Functions, calls and models of PyTorch as subjects."""
