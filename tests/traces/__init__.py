"""Recorded programs: what they hold, how they are checked, saved and drawn."""
