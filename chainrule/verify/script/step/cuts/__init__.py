"""Cuts on the way from parameters to a loss: where they are, what they cost, what is said."""
