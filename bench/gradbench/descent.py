"""Gradient descent that finds its own step length, one turn of it without a branch.

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


def start(f: ValueAndSlope, at: Any) -> Descent:
    """At the beginning."""
    value, slope = f(at)
    return Descent(at, value, slope, np.float64(FIRST_RATE), np.float64(0))


def finished(s: Descent) -> Any:
    """Whether a turn would leave everything as it is."""
    steep = cr.sqrt(cr.sum(s.slope * s.slope))
    short = (s.rate * steep <= SMALL) & (s.streak < STREAK)
    return (steep <= SMALL) | short


def turn(f: ValueAndSlope, s: Descent) -> Descent:
    """One attempt: a step that goes down is taken, otherwise only the rate changes."""
    done, grow = finished(s), s.streak >= STREAK
    at = s.at - s.rate * s.slope
    value, slope = f(at)
    taken = (value < s.value) & ~done & ~grow
    changed = cr.where(grow, s.rate * 2, s.rate / 2)
    return Descent(
        cr.where(taken, at, s.at),
        cr.where(taken, value, s.value),
        cr.where(taken, slope, s.slope),
        cr.where(taken | done, s.rate, changed),
        cr.where(done, s.streak, cr.where(taken, s.streak + 1, 0.0)),
    )


def live(s: Descent) -> bool:
    """Whether the descent goes on, of known numbers."""
    return not bool(finished(s))


def argmin(f: ValueAndSlope, at: Any) -> Any:
    """Where f is least, from `at`: (n) -> (n)."""
    state = start(f, at)
    while live(state):
        state = turn(f, state)
    return state.at
