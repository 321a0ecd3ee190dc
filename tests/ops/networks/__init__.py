"""Softmax and normalisation."""
