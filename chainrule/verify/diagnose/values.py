"""A is right, but for other values: y instead of x, an array that was changed after it was saved.

The derivative is asked for with one input replaced by what it may have been mistaken for. One
directional derivative tells most candidates apart; who passes is compared in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.diagnose.text.forward import has_text
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import CLOSE

_MOST = 160
"""Elements of the input at most: each costs six forwards for a candidate that passes."""


@dataclass(frozen=True, eq=False)
class _Other:
    """Input `j` as it may have been read."""

    j: int
    text: str
    value: Array
    code: str
    second: str = ""


def mistaken(case: Case) -> Iterator[Guess]:
    """Guesses for a backward that reads another value than the forward did."""
    if not case.whole or case.x.size > _MOST or case.x.dtype.kind != "f":
        return
    rng = np.random.default_rng(17)
    g, t = measure.drawn(rng, case.found.y_shape), measure.drawn(rng, case.found.x_shape)
    gs = measure.only(case.ys, case.found.output, g)
    seen = float(g.ravel() @ case.A @ t.ravel())
    for other in _candidates(case):
        xs = measure.replaced(case.xs, other.j, other.value)
        with np.errstate(all="ignore"):
            there, error = _slope(case, xs, t, gs)
        if not abs(there - seen) <= CLOSE * abs(seen) + 4 * error:
            continue
        matrix = measure.jacobian(case.subject, xs, case.k, case.found.output)
        if matrix.shape == case.A.shape and case.left(matrix) <= max(case.slack(), CLOSE):
            yield from _named(case, other, case.left(matrix))
            return


def _slope(
    case: Case, xs: tuple[object, ...], t: Array, gs: tuple[Array, ...]
) -> tuple[float, float]:
    try:
        there, error = measure.slope(case.subject, xs, case.k, t, gs)
    except Exception:
        return np.nan, np.nan  # Outside of the forward's domain: no candidate.
    return (there, error) if np.isfinite(there) and np.isfinite(error) else (np.nan, np.nan)


def _candidates(case: Case) -> Iterator[_Other]:
    inputs = case.subject.inputs
    real = [case.k, *case.others()]
    for j in real:
        x, name = np.asarray(case.xs[j], np.float64), inputs[j].name
        for i in real:
            if i != j and np.shape(case.xs[i]) == x.shape:
                yield _Other(j, inputs[i].name, np.asarray(case.xs[i]), "wrong_value")
        for y in case.ys:
            if y.shape == x.shape and y.dtype.kind == "f":
                yield _Other(j, "y", y, "wrong_value", "stale")
        yield from _changed(j, x, name)
        yield from _moved(j, x, name)


def _changed(j: int, x: Array, name: str) -> Iterator[_Other]:
    """What an operation in place would have made of x."""
    yield _Other(j, f"-{name}", -x, "wrong_value", "sign")
    for c in (2.0, 0.5, 3.0):
        yield _Other(j, f"{c:g} * {name}", c * x, "stale", "wrong_value")
    for c in (1.0, -1.0):
        yield _Other(j, f"{name} {'+' if c > 0 else '-'} 1", x + c, "stale", "wrong_value")
    yield _Other(j, "1", np.ones_like(x), "wrong_value", "missing_term")
    yield _Other(j, "0", np.zeros_like(x), "wrong_value", "stale")
    yield _Other(j, f"max({name}, 0)", np.maximum(x, 0), "stale", "wrong_value")
    yield _Other(j, f"abs({name})", np.abs(x), "one_sided", "wrong_value")
    yield _Other(j, f"{name}**2", x * x, "wrong_value", "stale")
    yield _Other(j, f"exp({name})", np.exp(np.minimum(x, 50.0)), "wrong_value", "stale")
    yield _Other(j, f"tanh({name})", np.tanh(x), "wrong_value", "stale")


def _moved(j: int, x: Array, name: str) -> Iterator[_Other]:
    """The same numbers at other places."""
    for a in range(x.ndim):
        if x.shape[a] > 1:
            yield _Other(j, f"{name} reversed along axis {a}", np.flip(x, a), "transposed")
        for b in range(a):
            if x.shape[a] == x.shape[b] > 1:
                text = f"{name} with axes {b} and {a} swapped"
                yield _Other(j, text, np.swapaxes(x, a, b), "transposed")


def _named(case: Case, other: _Other, left: float) -> Iterator[Guess]:
    name = case.subject.inputs[other.j].name
    because = f"A is the true Jacobian at {name} = {other.text}, leaving {left:.0e}"
    turned = other.text == f"-{name}" and _few_values(case)
    codes = [other.code, other.second] if other.second else [other.code]
    if has_text(case.subject.place):
        # Whoever changes it in place is seen in the text; nobody does here.
        codes.sort(key=lambda c: c == "stale")
    code = "one_sided" if turned else codes[0]
    detail = f"the backward reads {other.text} where {name} belongs"
    formula = f"use {name} as it was in the forward, not {other.text}, for {case.input}_bar"
    apart = "whether the array was changed after it was saved, or another one was used"
    yield guess(
        code, 6.9 if turned else 8.0, because, detail, left=left, formula=formula, apart=apart
    )
    if len(codes) > 1 and not turned:
        yield guess(codes[1], 8.5, because, detail, left=left, formula=formula, apart=apart)


def _few_values(case: Case) -> bool:
    """Whether each element's derivative is one of two numbers: its cases depend on a sign."""
    found = case.N[~case.tiny_N]
    apart = np.count_nonzero(~case.tiny_N, axis=1).max(initial=0) == 1
    local = case.found.y_shape == case.found.x_shape and np.all(case.tiny_N | _diagonal(case))
    return bool(apart and local) and np.unique(np.round(found, 6)).size <= 2


def _diagonal(case: Case) -> Array:
    return np.eye(*case.N.shape, dtype=bool)
