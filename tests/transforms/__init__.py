"""Derivatives inside derivatives, `vmap`, checkpointing."""
