"""Losses of what is compared with each other: pairs, ranks, real and fake."""
