"""Ops in compiled programs, family by family, against the eager ones."""
