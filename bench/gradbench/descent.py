"""Gradient descent that finds its own step length.

The step is doubled after ten steps that went down, halved when one would go up, and all ends when
the slope or the step is below 1e-5. The method is Pearlmutter and Siskind's (Using Programming
Language Theory to Make Automatic Differentiation Sound and Efficient, AD 2008), its constants the
suite's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import chainrule as cr
from bench.gradbench.problem import Function

SMALL, FIRST_RATE, STREAK = 1e-5, 1e-5, 10
ValueAndSlope = Callable[[Any], tuple[Any, Any]]


class Descent(NamedTuple):
    """Where a descent is: `at` (n), the function's value () and slope (n) there, the step's rate
    (), how many steps went down since the rate changed ()."""

    at: Any
    value: Any
    slope: Any
    rate: Any
    streak: Any


def going(s: Descent) -> Any:
    """Whether there is another attempt."""
    steep = cr.sqrt(cr.sum(s.slope * s.slope))
    return (steep > SMALL) & ((s.rate * steep > SMALL) | (s.streak >= STREAK))


def argmin(f: ValueAndSlope, at: Any, most: int | None = None) -> Any:
    """Where f is least, from `at`, after so many attempts `most`: (n) -> (n)."""

    def attempt(s: Descent) -> Descent:
        """A step that goes down is taken, otherwise only the rate changes."""
        grow = s.streak >= STREAK
        at = s.at - s.rate * s.slope
        value, slope = f(at)
        taken = (value < s.value) & ~grow
        return Descent(
            cr.where(taken, at, s.at),
            cr.where(taken, value, s.value),
            cr.where(taken, slope, s.slope),
            cr.where(taken, s.rate, cr.where(grow, s.rate * 2, s.rate / 2)),
            cr.where(taken, s.streak + 1, 0.0),
        )

    first = Descent(at, *f(at), np.float64(FIRST_RATE), np.float64(0))
    return cr.while_loop(going, attempt, first, most=most).at


def value_and_slope(mode: str, f: Function) -> ValueAndSlope:
    """f, which gives one number, with its slope in the given mode, forward or reverse."""
    if mode == "r":
        return cr.value_and_grad(f)
    forward = cr.jacobian(lambda x: (f(x),) * 2, mode="forward", has_aux=True)
    return lambda x: forward(x)[::-1]
