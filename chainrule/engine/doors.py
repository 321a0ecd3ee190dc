"""`apply` for one op, written out for what a step mostly does: one or two operands, unwatched.

A door is made of an op once, with what `apply` looks up at each call: the value function, the plan.
What it does not know at a glance goes through `apply`: placeholders, watches, interception, arrays
of other kinds, and what fails, so that one place explains it. Nodes are made by `graph.record`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from sys import modules
from typing import Any

import numpy as np

from chainrule.engine import watch
from chainrule.engine.arrays import is_fixed, native
from chainrule.engine.dtypes import beside
from chainrule.engine.graph import (
    apply,
    around,
    is_recording,
    record,
    spec_of,
    variable,
    variable_class,
)
from chainrule.engine.op import Op, Spec
from chainrule.engine.quiet import runner

Door = Callable[..., Any]
_ndarray: Any = np.ndarray
_BOTH = (0, 1)
_NUMBERS = frozenset({bool, int, float, complex})


def door(op: Op, other: Door | None = None) -> Door:
    """`apply(op, ...)` of one or two arguments, of which one is a variable; `other` is what is
    called where that is not enough, with the same arguments."""
    other = other or partial(apply, op)
    if op.many or op.takes not in (1, 2):
        return other
    return _unary(op, other) if op.takes == 1 else _binary(op, other)


def _unary(op: Op, other: Door) -> Door:
    """The door of an op of one argument."""
    fn, plans, plan, cls = op.eval, op.plans, op.plan, variable_class()
    quiet = op.quiet

    def unary(a: Any, /) -> Any:
        if a.__class__ is not cls or watch.watches or around.get() is not None:
            return other(a)
        x, m = a.value, a.node
        if x.__class__ is not _ndarray:
            return other(a)
        run = runner.get() if quiet else None
        try:
            y = run(fn, x) if run else fn(x)
        except Exception:
            return other(a)
        if m is None or not is_recording():
            return variable(y)
        need, keep_y, drop = plans.get(3) or plan(3)
        if not need:
            return variable(y)
        inputs = (m,)
        return record(op, need, keep_y, inputs, inputs if drop else (x,), y)

    return unary


def _beside(x: Any, b: Any) -> Any:
    """What an op computes with in place of `b`, which is no variable, beside the value x of one;
    None if only `apply` can tell."""
    if x.__class__ is not _ndarray or "ml_dtypes" in modules:
        return None
    if b.__class__ is _ndarray:
        return b if b.dtype in native else None
    if b.__class__ in _NUMBERS:
        return beside(b, x.dtype) if b else b
    return None


def _described(x: Any, given: Any) -> Any:
    """What tells the shape of `x`, in place of its values."""
    return given if given.__class__ in _NUMBERS else spec_of(x)


def _kept(x: Any, given: Any) -> Any:
    """`x` as a node keeps it: a copy of the caller's own array, which he may change."""
    return x.copy() if x is given and x.__class__ is _ndarray and not is_fixed(x) else x


def _binary(op: Op, other: Door) -> Door:
    """The door of an op of two arguments."""
    fn, plans, plan, cls = op.eval, op.plans, op.plan, variable_class()
    quiet = op.quiet

    def binary(a: Any, b: Any, /) -> Any:
        if watch.watches or around.get() is not None:
            return other(a, b)
        if a.__class__ is cls:
            x, m = a.value, a.node
            z, n = (b.value, b.node) if b.__class__ is cls else (_beside(x, b), None)
        elif b.__class__ is cls:
            z, n = b.value, b.node
            x, m = _beside(z, a), None
        else:
            return other(a, b)
        if x is None or z is None or x.__class__ is Spec or z.__class__ is Spec:
            return other(a, b)
        run = runner.get() if quiet else None
        try:
            y = run(fn, x, z) if run else fn(x, z)
        except Exception:
            return other(a, b)
        mask = 4 + (m is not None) + 2 * (n is not None)
        if mask == 4 or not is_recording():
            return variable(y)
        need, keep_y, drop = plans.get(mask) or plan(mask)
        if not need:
            return variable(y)
        inputs = (m, n)
        if mask == 7 and drop == _BOTH:
            return record(op, need, keep_y, inputs, inputs, y)
        if drop or mask != 7:
            x = (m or _described(x, a)) if 0 in drop else _kept(x, a)
            z = (n or _described(z, b)) if 1 in drop else _kept(z, b)
        return record(op, need, keep_y, inputs, (x, z), y)

    return binary
