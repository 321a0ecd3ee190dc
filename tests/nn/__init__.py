"""Layers and modules."""
