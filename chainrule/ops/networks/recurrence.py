"""A layer of a recurrent network over all steps, as one op of eager calls.

Each step is a product with the weights and a kernel for the gates, whose results go straight into
the arrays of all steps; so is each step of the way back. The weights' cotangent is one product over
all steps. Tangents, and derivatives beyond the first, are those of the steps op by op.

Notation: T steps, B sequences, G gates, H size of the state; `share` is h W^T, (B, G H).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np

from chainrule.engine.dtypes import Dtype, float32, float64
from chainrule.engine.graph import Variable, apply
from chainrule.engine.op import Array, Need, Op, Spec
from chainrule.ops import eager_kernels
from chainrule.ops import elementwise as ew
from chainrule.ops.composite_derivatives import pull_back, push_forward
from chainrule.ops.contraction import matmul
from chainrule.ops.eager_kernels import maker
from chainrule.ops.kernel_use import fuses
from chainrule.ops.networks.recurrent import gru_gates, lstm_gates
from chainrule.ops.shapes.joining import stack, unstack
from chainrule.ops.shapes.shaping import matrix_transpose, reshape, squeeze


@final
@dataclass(frozen=True)
class Cell:
    """One step once the products are made: (x, share, *those of the states that it reads) ->
    states; x and share are (B, G, H), a state is (B, H)."""

    gates: int
    states: int
    reads: tuple[int, ...]
    """Which of the states it reads beside their share."""
    adds: bool
    """Whether all that it reads of x and share is their sum."""
    step: Callable[..., Sequence[Any]]


def _gru(x: Any, share: Any, h: Any) -> list[Any]:
    return [gru_gates(x, share, h)]


def _tanh(x: Any, share: Any) -> list[Any]:
    return [ew.tanh(squeeze(x + share, 1))]


def _relu(x: Any, share: Any) -> list[Any]:
    return [ew.relu(squeeze(x + share, 1))]


CELLS: dict[str, Cell] = {
    "lstm": Cell(4, 2, (1,), True, lstm_gates),
    "gru": Cell(3, 1, (0,), False, _gru),
    "tanh": Cell(1, 1, (), True, _tanh),
    "relu": Cell(1, 1, (), True, _relu),
}


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
        """A product and a kernel for each step."""
        known = CELLS[self.cell]
        x, weight, *rest = map(np.ascontiguousarray, xs)
        bias, now = self._bias(rest)
        steps, count, width = x.shape
        apart = (steps, count, known.gates, width // known.gates)
        shares = np.empty(x.shape, x.dtype)
        states = [np.empty((steps, *now[0].shape), x.dtype) for _ in now]
        run = _kernels(self, x.dtype).value(apart[1:])
        turned = weight.T
        wide = zip(shares, x.reshape(apart), shares.reshape(apart), *states, strict=True)
        for share, x_t, share_t, *new in wide:
            np.matmul(now[0], turned, out=share)
            run((x_t, share_t, *bias, *[now[k] for k in known.reads]), new)
            now = new
        return (*states, shares)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """A kernel and a product for each step, backwards; or op by op where it is to be
        differentiated again."""
        if g[-1] is None and not any(isinstance(v, Variable) for v in (*g, *xs)):
            bars = self._bars(g[:-1], y, xs)
            return [bar if n else None for bar, n in zip(bars, need, strict=True)]
        some = [i for i, part in enumerate(g) if part is not None]
        found = pull_back(
            lambda at: [self.results(at)[i] for i in some], need, xs, [g[i] for i in some]
        )
        bars = iter(found)
        return [next(bars) if n else None for n in need]

    def _bars(self, gs: Sequence[Any], ys: Sequence[Array], xs: Sequence[Array]) -> list[Array]:
        """The cotangents of all inputs."""
        known = CELLS[self.cell]
        x, weight, *rest = map(np.ascontiguousarray, xs)
        bias, first = self._bias(rest)
        steps, count, width = x.shape
        apart = (steps, count, known.gates, width // known.gates)
        before = [np.concatenate((f[None], y[:-1])) for f, y in zip(first, ys, strict=False)]
        nothing = np.zeros_like(first[0])
        given = [_rows(g, nothing, steps) for g in gs]
        share_bar = np.empty(apart, x.dtype)
        x_bar = share_bar if known.adds else np.empty(apart, x.dtype)
        flat = share_bar.reshape(x.shape)
        through = nothing  # what comes from the product of the next step
        carry: dict[int, Any] = dict.fromkeys(range(known.states), nothing)
        run = _kernels(self, x.dtype).pull(apart[1:])
        x, shares = x.reshape(apart), ys[-1].reshape(apart)
        for t in range(steps - 1, -1, -1):
            inputs = (x[t], shares[t], *bias, *[before[k][t] for k in known.reads])
            new = {k: np.empty_like(nothing) for k in known.reads}
            own = [] if known.adds else [x_bar[t]]
            gs_t = [given[k][t] for k in range(known.states)]
            run((*inputs, *gs_t, *carry.values(), through), [*own, share_bar[t], *new.values()])
            carry.update(new)
            through = np.matmul(flat[t], weight)
        rows = flat.reshape(-1, width)
        bars = [x_bar.reshape(flat.shape), rows.T @ before[0].reshape(len(rows), -1)]
        bars += [np.add.reduce(rows, axis=0)] if self.biased else []
        last = [carry[k] if k in known.reads else nothing for k in range(known.states)]
        return [*bars, last[0] + through, *last[1:]]

    def _bias(self, rest: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The bias as (G, H), if there is one; the first states."""
        given = list(rest)
        if not self.biased:
            return [], given
        return [given[0].reshape(CELLS[self.cell].gates, -1)], given[1:]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """That of the steps op by op."""
        return tuple(push_forward(self.results, ts, xs))

    def results(self, xs: Sequence[Any]) -> list[Any]:
        """The value, op by op."""
        known = CELLS[self.cell]
        x, weight, *rest = xs
        bias, now = self._bias(rest)
        shape = (x.shape[1], known.gates, x.shape[2] // known.gates)
        turned = matrix_transpose(weight)
        rows: list[list[Any]] = []
        for x_t in unstack(x):
            share = matmul(now[0], turned)
            apart = reshape(share, shape) + bias[0] if bias else reshape(share, shape)
            now = list(known.step(reshape(x_t, shape), apart, *[now[k] for k in known.reads]))
            rows.append([*now, share])
        return [stack(parts) for parts in zip(*rows, strict=True)]


def _rows(g: Array | None, nothing: Array, steps: int) -> Any:
    """A cotangent for each step."""
    return [nothing] * steps if g is None else np.ascontiguousarray(g, nothing.dtype)


# --- Its kernels ---------------------------------------------------------------------------------

Into = Callable[[tuple[Array, ...], Sequence[Array]], None]
"""Runs a kernel whose results go into arrays that are there."""


@final
class _Kernels:
    """What computes a step, and what pulls back through it."""

    def __init__(self, op: Recurrence, dtype: Dtype) -> None:
        known = CELLS[op.cell]
        self._known = known
        self._wide = f"B{known.gates}H"
        self._letters = [self._wide, self._wide, *[f"{known.gates}H"] * op.biased]
        self._letters += ["BH"] * len(known.reads)
        self._given = ["BH"] * (2 * known.states + 1)
        self._count, self._biased = len(self._letters), op.biased
        words = f"{op.cell}{' with a bias' * op.biased}"
        more = [*self._letters, *self._given]
        make = maker()
        self._value = make(
            f"step of {words}", self._step, self._letters, [dtype] * len(self._letters)
        )
        self._pull = make(f"step back of {words}", self._step_back, more, [dtype] * len(more))
        self.value, self.pull = lru_cache(self._value_at), lru_cache(self._pull_at)

    def _step(self, xs: Sequence[Any]) -> list[Any]:
        x, share, *rest = xs
        bias, states = (rest[:1], rest[1:]) if self._biased else ([], rest)
        return list(self._known.step(x, share + bias[0] if bias else share, *states))

    def _step_back(self, xs: Sequence[Any]) -> list[Any]:
        """The cotangents of x unless it is added to share, of share, of the states that are read.

        Those of the new states come from the results, from the next step, and, of the first state,
        from the product there.
        """
        known, gs = self._known, xs[self._count :]
        n = known.states
        sums = [a + b for a, b in zip(gs[:n], gs[n : 2 * n], strict=True)]
        sums[0] = sums[0] + gs[-1]
        need = (not known.adds, True, *[False] * self._biased, *[True] * len(known.reads))
        return pull_back(self._step, need, xs[: self._count], sums)

    def _value_at(self, shape: tuple[int, int, int]) -> Into:
        results = [self._state(shape)] * self._known.states
        return self._value.at(self._shapes(self._letters, shape), results).into

    def _pull_at(self, shape: tuple[int, int, int]) -> Into:
        known = self._known
        results = [*[shape] * (2 - known.adds), *[self._state(shape)] * len(known.reads)]
        return self._pull.at(self._shapes([*self._letters, *self._given], shape), results).into

    def _shapes(self, letters: Sequence[str], shape: tuple[int, int, int]) -> list[Any]:
        forms = {self._wide: shape, "BH": self._state(shape)}
        return [forms.get(names, shape[1:]) for names in letters]

    @staticmethod
    def _state(shape: tuple[int, int, int]) -> tuple[int, int]:
        return shape[0], shape[2]


@lru_cache(maxsize=64)
def _kernels(op: Recurrence, dtype: Dtype) -> _Kernels:
    return _Kernels(op, dtype)
