"""Simpler programs: tables of rules by theme, and what applies them."""
