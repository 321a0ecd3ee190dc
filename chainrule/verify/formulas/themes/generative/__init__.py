"""Diffusion, straight flows and invertible maps."""
