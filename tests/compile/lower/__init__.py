"""Kernels: how ops become loops, where numbers lie, what is fused."""
