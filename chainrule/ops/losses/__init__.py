"""Losses, made of ops."""
