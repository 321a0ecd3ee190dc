"""Tests of explanations, message by message."""
