"""Edits of the user's text that put a backward right."""
