"""Every differentiable op of chainrule with arguments: collected while the samples of the tables,
and the rules of their derivatives, run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.engine.graph import Variable, apply, intercept_ops
from chainrule.engine.op import Op
from chainrule.ops import complex as cplx
from tests.ops import check
from tests.ops.test_generated import SAMPLES
from tests.public import samples_shapes


@dataclass(frozen=True, eq=False)
class Case:
    """An op and the values that it was applied to."""

    op: Op
    values: tuple[Any, ...]

    def __str__(self) -> str:
        shapes = ",".join("x".join(map(str, np.shape(v))) or "0d" for v in self.values)
        return f"{kind(self.op)}[{shapes}]"


X, SQUARE = samples_shapes.X, samples_shapes.BATCH
MORE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda x: cr.astype(x, np.float64), (X.astype(np.float32),)),
    (lambda a, b: cplx.complex_abs(cplx.complex(a, b)), (X, X[::-1])),
    (lambda a, b: cplx.angle(cplx.complex(a, b)), (X, X[::-1])),
    (lambda x: cr.linalg.det(x), (SQUARE,)),
]
"""What the samples leave out: parts of complex numbers, casts, the derivative of a determinant."""


def kind(op: Op) -> str:
    """The row of the table, or the class."""
    return getattr(op, "label", None) or type(op).__name__


def floats(op: Op, values: Sequence[Any]) -> list[int]:
    """The arguments through which a gradient flows."""
    pairs = enumerate(values)
    return [
        i
        for i, v in pairs
        if hasattr(v, "dtype") and v.dtype.kind in "fc" and v.size and op.reads(i) is not None
    ]


@cache
def cases() -> tuple[Case, ...]:
    """One for each op and kinds of dtypes, with the first arguments of at least two elements."""
    found: dict[Any, Case] = {}

    def look(op: Op, xs: Sequence[Any]) -> Any:
        values = tuple([x.value if isinstance(x, Variable) else x for x in xs])
        kinds = tuple([v.dtype.kind if hasattr(v, "dtype") else type(v) for v in values])
        most = max([np.size(v) for v in values], default=0)
        y = apply(op, *xs)
        fit = 2 <= most <= 400 and floats(op, values) and all(map(_moderate, values))
        if not op.passes and fit and _differentiable(y) and kind(op) != "NoExamples":
            found.setdefault((kind(op), kinds), Case(op, values))
        return y

    with intercept_ops(look):
        for sample in SAMPLES:
            _back(sample.f, sample.args)
        for f, args in MORE:
            _back(f, args)
        for call in samples_shapes.CALLS:
            call()
    return tuple(found.values())


def _moderate(value: Any) -> bool:
    """Whether differences can tell of a value: what a partial loses by rounding is too small."""
    size = np.abs(value) if hasattr(value, "dtype") and value.dtype.kind == "f" else np.ones(1)
    return not size.size or bool(np.median(size) > 1e-6)


def _differentiable(y: Any) -> bool:
    return any(part.dtype.kind in "fc" for part in (y if isinstance(y, tuple) else (y,)))


def _back(f: Callable[..., Any], args: Sequence[Any]) -> None:
    """Forward and backward, the latter as it is recorded to be differentiated again."""
    f, xs = check.of_floats(f, args)
    y = f(*[cr.tensor(x, requires_grad=True) for x in xs])
    if isinstance(y, cr.Tensor) and y.requires_grad:
        y.backward(np.ones(y.shape, y.dtype), create_graph=True)
