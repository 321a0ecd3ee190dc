"""Compiled training steps beside frameworks and code by hand: `python -m bench.compiled`."""
