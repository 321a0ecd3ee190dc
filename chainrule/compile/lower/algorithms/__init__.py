"""Ops on whole arrays that are algorithms: sorting, searching, scans, factorizations."""
