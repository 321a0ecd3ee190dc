"""A layer of a recurrent network over all steps, as one op of eager calls.

Its value is one kernel, and so are the cotangents of all its inputs (`layer_kernels.py`). Tangents,
and derivatives beyond the first, are those of the steps op by op.

Notation: T steps, B sequences, G gates, H size of the state; `share` is h W^T, (B, G H).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.dtypes import float32, float64
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Need, Op, Spec
from chainrule.nn.recurrent.layer_kernels import CELLS, Layer, LayerKernels, kernels
from chainrule.ops import eager_kernels
from chainrule.ops.fusing import fuses, pull_back, push_forward
from chainrule.ops.networks.linear import product_of_rows
from chainrule.ops.shapes.shaping import reshape


def recurrence(cell: str, x: Any, weight: Any, bias: Any, first: Sequence[Any]) -> Any:
    """The states after each step, (T, B, H) each; None where it is to run op by op, as where the
    shapes are others.

    Shapes: x (T, B, G H), weight (G H, H), bias (G H) or None, states (B, H).
    Whether it runs depends on shapes and dtypes alone.
    """
    xs = [x, weight, *([] if bias is None else [bias]), *first]
    values = [v.value if isinstance(v, Variable) else v for v in xs]
    if any(v.__class__ is not np.ndarray or not v.size for v in values):
        return None
    if not _fits(cell, bias is not None, *[v.shape for v in values]):
        return None
    dtypes = {v.dtype for v in values}
    kernels = len(dtypes) == 1 and dtypes <= {float32, float64}
    if not kernels or values[0].size < eager_kernels.LEAST or not fuses():
        return None
    return apply(Recurrence(cell, bias is not None), *xs)[:-1]


def _fits(cell: str, biased: bool, first: tuple[int, ...], *others: tuple[int, ...]) -> bool:
    """Whether the shapes are those of a recurrence: a kernel reads without looking."""
    if len(first) != 3:
        return False
    (_, count, width), known = first, CELLS[cell]
    size = width // known.gates
    due = [(width, size), *[(width,)] * biased, *[(count, size)] * known.states]
    return width == known.gates * size and list(others) == due


class Recurrence(Op):
    """(x, weight, bias if there is one, *states) -> (*states of all steps, shares of all steps)."""

    cell: str
    biased: bool
    many: ClassVar[bool] = True
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`lstm steps`, say."""
        return f"{self.cell} steps"

    def spec(self, *xs: Any) -> Any:
        """(T, B, H) for each state, (T, B, G H) for the shares."""
        x, weight = xs[:2]
        state = Spec((*x.shape[:2], weight.shape[1]), x.dtype)
        return (*[state] * CELLS[self.cell].states, Spec(x.shape, x.dtype))

    def reads(self, i: int) -> tuple[int, ...]:
        """The results, and all inputs."""
        return tuple(range(3 + self.biased + CELLS[self.cell].states))

    def eval(self, *xs: Any) -> Any:
        """The kernel's values."""
        run = self._kernels(xs).value(self._sizes(xs))
        ys = run(tuple([np.ascontiguousarray(x) for x in xs]))
        assert ys is not None, f"a kernel for other arrays than {xs}"
        return tuple(ys)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The kernel's; or op by op where it is to be differentiated again."""
        if g[-1] is None and not any(isinstance(v, Variable) for v in (*g, *xs)):
            bars = self._bars(g[:-1], y, xs)
            return [bar if n else None for bar, n in zip(bars, need, strict=True)]
        some = [i for i, part in enumerate(g) if part is not None]
        found = pull_back(
            lambda at: [self.results(at)[i] for i in some], need, xs, [g[i] for i in some]
        )
        bars = iter(found)
        return [next(bars) if n else None for n in need]

    def _bars(self, gs: Sequence[Any], ys: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        """The cotangents of all inputs."""
        run = self._kernels(xs).pull(self._sizes(xs), tuple([g is not None for g in gs]))
        there = [np.asarray(g, xs[0].dtype) for g in gs if g is not None]
        bars = run(tuple([np.ascontiguousarray(x) for x in (*xs, *ys, *there)]))
        assert bars is not None, f"a kernel for other arrays than {xs}"
        x_bar, *rest = bars
        rows, size = bars[not CELLS[self.cell].adds].reshape(-1, xs[0].shape[-1]), xs[1].shape[1]
        before = np.concatenate((xs[2 + self.biased][None], ys[0][:-1])).reshape(-1, size)
        return [x_bar, product_of_rows(rows, before), *rest[not CELLS[self.cell].adds :]]

    def _kernels(self, xs: Sequence[Any]) -> LayerKernels:
        return kernels(self.cell, self.biased, xs[0].dtype)

    @staticmethod
    def _sizes(xs: Sequence[Any]) -> tuple[int, int, int]:
        """T, B, H."""
        return (*xs[0].shape[:2], xs[1].shape[1])

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """That of the steps op by op."""
        return tuple(push_forward(self.results, ts, xs))

    def results(self, xs: Sequence[Any]) -> list[Any]:
        """The value, op by op."""
        known, (steps, count, size) = CELLS[self.cell], self._sizes(xs)
        x, weight, *rest = xs
        bias = [reshape(b, (known.gates, size)) for b in rest[: self.biased]]
        apart = reshape(x, (steps, count, known.gates, size))
        apart_weight = reshape(weight, (known.gates, size, size))
        return Layer(known, self.biased).forward([apart, apart_weight, *bias, *rest[self.biased :]])
