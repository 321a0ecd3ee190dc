"""The back end: what runs a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.compile.terms import Program, Values

Run = Callable[[Sequence[Any]], list[Any]]
"""`run(inputs)`: arrays in the order of the program's inputs, each C-contiguous, of the shape and
dtype that its input says; new arrays of the results. The inputs that `updates` names are written in
place: nobody else sees them. All results and updates are of the inputs' old values."""


def build(program: Program) -> Run:
    """What runs `program`; `updates` name an input at most once."""
    places = [place for place, _ in program.updates]

    def run(inputs: Sequence[Any]) -> list[Any]:
        results, news = Values(program).run(inputs)
        fresh = [np.array(r, order="C") for r in results]
        news = [n.copy() if any(n is x or n.base is not None for x in inputs) else n for n in news]
        for place, new in zip(places, news, strict=True):
            inputs[place][...] = new
        return fresh

    return run
