"""Shows that a planted mistake is one: its backward disagrees with differences of its forward."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import independent, modules
from .case import Case
from .points import arguments

WRONG = 1e-6
"""Relative error from which on a gradient is wrong."""
FLOAT32 = 1e-2
"""In float32 rounding explains more: errors count less."""


def witness(case: Case) -> tuple[Any, ...]:
    """The arguments at which the mistake must show."""
    wrong = case.slip.wrong
    if wrong in ("", "strided", "float32"):
        return arguments(case.right.op, case.at)
    if wrong == "negative":
        args = arguments(case.right.op, case.at)
        return tuple([-a if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args])
    return arguments(case.right.op, wrong)


def shown(case: Case) -> dict[int, float]:
    """Relative error by argument, where the slip says that it shows."""
    made = modules.of_case(case)
    run = independent.runner(case.right.face, made, case.right.call)
    found = independent.errors(run, witness(case), case.slip.wrong)
    modules.forget(made)
    return {i: e * FLOAT32 for i, e in found.items()} if case.slip.wrong == "float32" else found


def wrong_inputs(case: Case) -> tuple[int, ...]:
    """Which arguments get a wrong gradient."""
    return tuple([i for i, e in shown(case).items() if e > WRONG])
