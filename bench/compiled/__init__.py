"""Compiled training steps beside other frameworks and beside code by hand; `python -m bench.compiled`."""
