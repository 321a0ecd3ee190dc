"""The back end: what runs a `Program`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from chainrule.compile.graph.rules.index_checks import add_index_checks
from chainrule.compile.graph.rules.simplify import simplify
from chainrule.compile.graph.terms import Program, Terms
from chainrule.compile.runtime.native_program import Native

Run = Callable[[Sequence[Any]], list[Any]]
"""`run(inputs)`: arrays in the order of the program's inputs, each C-contiguous, of the shape and
dtype that its input says; new arrays of the results. The inputs that `updates` names are written in
place: nobody else sees them. All results and updates are of the inputs' old values."""


def build(program: Program) -> Native:
    """What runs `program`; `updates` name an input at most once. An index that is outside raises
    `IndexingError` after the run."""
    terms = Terms()
    program, checks = add_index_checks(program, terms)
    return Native(simplify(program, terms), checks)


def build_unchecked(program: Program) -> Native:
    """The same without a look at indices: results are those of the program and no more."""
    return Native(simplify(program, Terms()))


@contextmanager
def without_gc() -> Generator[None]:
    """Within it Python does not look for cycles. Nearly all that a compiler makes is in use until
    it is done: looking at it again and again takes a tenth of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
