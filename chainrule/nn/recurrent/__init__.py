"""Recurrent layers: a cell's step, and its walk over a sequence."""
