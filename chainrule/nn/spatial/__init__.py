"""Layers over one to three axes of space: convolutions, pools, norms, rearrangements."""
