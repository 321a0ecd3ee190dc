"""Backwards that a user wrote and a script ran."""
