"""Attention, and the transformers that are made of it."""
