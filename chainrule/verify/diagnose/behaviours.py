"""Mistakes that show without a Jacobian: what a backward did that no correct one does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np

from chainrule.verify.diagnose import measure
from chainrule.verify.diagnose.case import Guess, guess
from chainrule.verify.diagnose.text.cached_values import shared_at
from chainrule.verify.evidence import Behaviour, Evidence
from chainrule.verify.subject import Array, Subject

_RANK = {
    "raises": 0.0,
    "wrong_shape": 0.2,
    "nan": 0.4,
    "not_deterministic": 0.6,
    "dropped": 0.8,
    "ignores_cotangent": 0.9,
    "not_linear": 1.0,
    "not_reset": 1.4,
    "stale": 1.5,
    "contiguity": 1.6,
    "precision": 2.0,
    "size": 1.95,
    "one_sided": 0.95,
    "region": 2.8,
    "writes": 30.0,
}
"""How plain an explanation each is. `size` says when, not what: a recognised factor goes before it;
but where inputs of one sign alone have their gradients turned, they are what was forgotten. Writing
into another's array need not be why a gradient is wrong."""
_FORMULA = {
    "not_linear": "{x}_bar must be linear in g: every term has g exactly once as a factor",
    "ignores_cotangent": "multiply by g: {x}_bar = J^T g, not J^T 1",
    "contiguity": "do not assume the memory order of g: use its indices, or copy it first",
    "dropped": "return a gradient for {x}: the output depends on it",
    "not_deterministic": "the same values must give the same gradient: keep what was drawn",
    "not_reset": "let every call begin anew: `=` in place of `+=`, or zeros first",
    "stale": "keep a copy of what the backward reads, so that nothing can change it",
    "writes": "work on a copy",
    "nan": "the derivative is finite here: avoid 0/0, inf - inf and 0 * inf",
    "precision": "compute in a wider dtype, or avoid the cancellation",
    "size": "take sizes from shapes, not from constants",
    "one_sided": "handle both signs of {x}",
    "wrong_shape": "{x}_bar must have the shape of {x}",
    "raises": "the backward must work wherever the forward does",
}
_ANEW = "keep in every call what the backward reads of it"
_SECONDARY, _LESS = 7.0, 2.7
_MOST = 300
"""Elements of an input whose true gradient is measured one by one."""


def guesses_for(evidence: Evidence, behaviour: Behaviour) -> Iterator[Guess]:
    """Guesses for one behaviour: what explains it, and what was seen itself."""
    name = "x" if behaviour.input is None else evidence.subject.inputs[behaviour.input].name
    if behaviour.code == "wrong_shape" and behaviour.input is not None:
        yield from _wrong_shape(evidence.subject, behaviour.input)
    code = behaviour.code
    if code == "dropped" and evidence.subject.backward_place is None:
        code = "detached"
    at = behaviour.data.get("at")
    if at is None and behaviour.data.get("interrupted"):
        at = shared_at(evidence.subject)
    formula = _ANEW if behaviour.data.get("resumed") else _FORMULA.get(behaviour.code, "")
    yield guess(
        code,
        _rank(evidence, behaviour),
        behaviour.says,
        formula=formula.format(x=name),
        place=at,
    )


def _rank(evidence: Evidence, behaviour: Behaviour) -> float:
    """What depends on memory order is the mistake only if the gradient is right otherwise; what is
    seen at points of one sign, only if it is right there at sizes other than the captured ones."""
    plain = [t for t in evidence.trials if t.input == behaviour.input and t.verdict == "wrong"]
    if behaviour.code == "contiguity" and plain:
        return _SECONDARY
    if behaviour.code == "one_sided" and any(b.code == "size" for b in evidence.behaviours):
        return _LESS
    return _RANK.get(behaviour.code, 1.0)


def _wrong_shape(subject: Subject, k: int) -> Iterator[Guess]:
    """What must be done to a gradient of a wrong shape to make it right."""
    xs = measure.captured_point(subject)
    ys = measure.outputs(subject, xs)
    rng = np.random.default_rng(3)
    gs = [measure.normal_array(rng, y.shape) for y in ys]
    got, true = measure.pull(subject, xs, gs, k), true_bar(subject, xs, k, gs)
    if true is None:
        return
    name = subject.inputs[k].name
    for reading in (
        *_sum_readings(name, got, true.shape),
        *_transpose_readings(name, got, true.shape),
    ):
        if _equal(reading.change(got), true):
            because = f"its shape is {got.shape}, not {true.shape}; changed so, it is right"
            yield _guess_of_reading(reading, because)
            return


@dataclass(frozen=True)
class _Reading:
    """What a gradient of a wrong shape may be, and what makes it right."""

    code: str
    detail: str
    formula: str
    change: Callable[[Array], Array]


def _sum_readings(name: str, got: Array, shape: tuple[int, ...]) -> Iterator[_Reading]:
    """Not summed over some of its axes, or right but for its shape."""
    for count in range(1, got.ndim + 1):
        for axes in combinations(range(got.ndim), count):
            said = axes[0] if count == 1 else axes
            for keep in (False, True):
                change = partial(np.sum, axis=axes, keepdims=keep)
                if np.shape(change(got)) == shape:
                    how = f", keepdims={keep}" if keep else ""
                    formula = f"{name}_bar = {name}_bar.sum(axis={said}{how})"
                    detail = f"{name} was broadcast along axis {said}; its gradient is not summed"
                    yield _Reading("not_summed", detail, formula, change)
    if got.size == math.prod(shape):
        formula = f"{name}_bar = {name}_bar.reshape({name}.shape)"
        change = partial(np.reshape, shape=shape)
        yield _Reading("wrong_shape", "only the shape is wrong", formula, change)


def _transpose_readings(name: str, got: Array, shape: tuple[int, ...]) -> Iterator[_Reading]:
    for order in permutations(range(got.ndim)) if got.ndim <= 4 else ():
        if tuple([got.shape[i] for i in order]) == shape:
            text = "T" if got.ndim == 2 else f"transpose{order}"
            detail = f"{name}_bar is the transposed of the right one"
            formula = f"{name}_bar = {name}_bar.{text}"
            yield _Reading("transposed", detail, formula, partial(np.transpose, axes=order))


def _guess_of_reading(reading: _Reading, because: str) -> Guess:
    return guess(
        reading.code,
        0.1,
        because,
        reading.detail,
        formula=reading.formula,
        mend=lambda pull, xs, gs: reading.change(pull(xs, gs)),
    )


def true_bar(subject: Subject, xs: tuple[Any, ...], k: int, gs: list[Array]) -> Array | None:
    """The right gradient of input k by differences; None if it has too many elements."""
    x = np.asarray(xs[k])
    if x.size > _MOST or x.dtype.kind != "f":
        return None
    units = np.eye(x.size).reshape((x.size, *x.shape))
    return np.array([measure.slope(subject, xs, k, np.asarray(t), gs)[0] for t in units]).reshape(
        x.shape
    )


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(
        np.linalg.norm(a - b) <= 1e-6 * max(float(np.linalg.norm(b)), 1e-300)
    )
