"""Attention, activations and normalization."""
