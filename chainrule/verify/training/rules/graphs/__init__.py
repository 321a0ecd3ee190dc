"""Graphs of steps that are over: kept, and counted again."""
