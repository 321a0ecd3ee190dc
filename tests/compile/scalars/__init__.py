"""Compiled functions of `Value`s."""
