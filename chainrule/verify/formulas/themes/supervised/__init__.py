"""Losses of predictions: numbers, classes, distributions."""
