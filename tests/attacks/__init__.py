"""Damaged files and killed runs: nothing hangs, nothing is lost, no code of a file is run."""
