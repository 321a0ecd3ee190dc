"""Repairs of backwards by what they are called with: signatures, sizes, trees, settings."""
