"""Edits whose values are solved for: gradients are affine in nearly every expression."""
