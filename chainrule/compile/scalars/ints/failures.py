"""What a program raises because it was given symbols in place of ints.

It may do with these whatever it likes, and raise whatever it likes. That is told apart from what
the recording raises about it, so that a fault of the recording stays visible.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class OnSymbolsError(Exception):
    """A program cannot be recorded with symbols; its cause is what the program raised."""


@contextmanager
def on_symbols(symbolic: bool, *own: type[Exception]) -> Generator[None]:
    """Runs a program, on symbols if it is `symbolic`; exceptions of the classes `own` are ours."""
    try:
        yield
    except own:
        raise
    except Exception as cause:
        if not symbolic:
            raise
        raise OnSymbolsError from cause
