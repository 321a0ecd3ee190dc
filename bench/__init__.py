"""Benchmarks: one file per question, each answered in pairs in one run."""
