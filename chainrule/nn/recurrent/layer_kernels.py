"""All steps of a recurrent layer as one kernel, and all steps back as another.

A kernel is a function of ops, traced once for all sizes. Its scan becomes a native loop over the
steps; the products with the weights are in that loop.

Notation: T steps, B sequences, G gates, H size of the state; `share` is h W^T, (B, G H).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np

from chainrule.engine.dtypes import Dtype
from chainrule.ops import elementwise as ew
from chainrule.ops.axis_letters import shape_of
from chainrule.ops.contraction import matmul, matmul_t
from chainrule.ops.eager_kernels import Kernel, Run, maker
from chainrule.ops.fusing import pull_back
from chainrule.ops.indexing.selection import take, where
from chainrule.ops.networks.recurrent import gru_gates, lstm_gates
from chainrule.ops.reductions import reduction as red
from chainrule.ops.shapes.shaping import reshape, squeeze
from chainrule.ops.shapes.slices import flip
from chainrule.transforms.scan import scan


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


@final
@dataclass(frozen=True)
class Layer:
    """A cell, and whether there is a bias; its methods are the functions that kernels compute."""

    cell: Cell
    biased: bool

    def forward(self, xs: Sequence[Any]) -> list[Any]:
        """The states after each step, and the shares.

        Shapes: x (T, B, G, H), weight (G, H, H), bias (G, H) if there is one, states (B, H) ->
        (T, B, H) for each state, (T, B, G H).
        """
        x, weight, *rest = xs
        bias, first = rest[: self.biased], rest[self.biased :]
        shape, flat = x.shape[1:], _rows(weight)

        def step(now: Any, x_t: Any) -> Any:
            share = matmul_t(now[0], flat)
            read = [now[k] for k in self.cell.reads]
            new = tuple(self._step([x_t, reshape(share, shape), *bias, *read]))
            return new, (*new, share)

        return list(scan(step, tuple(first), x)[1])

    def _step(self, xs: Sequence[Any]) -> list[Any]:
        """The next states; of x, the share, the bias if there is one, the states that are read."""
        x, share, *rest = xs
        bias, states = rest[: self.biased], rest[self.biased :]
        return list(self.cell.step(x, share + bias[0] if bias else share, *states))

    def backward(self, present: Sequence[bool], xs: Sequence[Any]) -> list[Any]:
        """The cotangents of x unless it is added to the share, of the share, of the bias and first
        states; from the inputs and results of `forward`, and the cotangents of those states
        that have one: they are `present`.

        A step back computes its gates again, from the shares. What all steps give the weights is
        one product, of the shares' cotangents with the states before.
        """
        cell, count = self.cell, 2 + self.biased
        x, weight, *bias = xs[:count]
        first, states, (shares, *given) = _cut(xs[count:], cell.states, cell.states)
        places = iter(given)
        gs = [next(places) if there else None for there in present]
        flat, nothing = _rows(weight), np.zeros(first[0].shape, first[0].dtype)
        need = (not cell.adds, True, *[False] * self.biased, *[True] * len(cell.reads))

        def step(carry: Any, t: Any) -> Any:
            bars = [None if g is None else take(g, t, axis=0) for g in gs]
            for k, bar in zip((0, *cell.reads), carry, strict=True):
                bars[k] = bar if bars[k] is None else bars[k] + bar
            outer = [nothing if bar is None else bar for bar in bars]
            share = reshape(take(shares, t, axis=0), x.shape[1:])
            read = [_before(first[k], states[k], t) for k in cell.reads]
            inner = [take(x, t, axis=0), share, *bias, *read]
            own, read = _cut(pull_back(self._step, need, inner, outer), 2 - cell.adds)
            through = matmul(reshape(own[-1], (-1, flat.shape[0])), flat)
            return (through, *read), tuple(own)

        start = tuple([nothing] * (1 + len(cell.reads)))
        (through, *read), bars = scan(step, start, np.arange(x.shape[0])[::-1])
        *x_bar, share_bar = [flip(bar, axis=0) for bar in bars]
        last = dict(zip(cell.reads, read, strict=True))
        last[0] = through + last[0] if 0 in last else through
        return [
            *x_bar,
            share_bar,
            *[red.sum(share_bar, axis=(0, 1))] * self.biased,
            *[last.get(k, nothing) for k in range(cell.states)],
        ]


def _rows(weight: Any) -> Any:
    """(G, H, H) -> (G H, H)."""
    return reshape(weight, (-1, weight.shape[-1]))


def _cut(xs: Sequence[Any], *counts: int) -> list[list[Any]]:
    """The first so many, the next so many, .., and the rest."""
    parts: list[list[Any]] = []
    for n in counts:
        parts.append(list(xs[:n]))
        xs = xs[n:]
    return [*parts, list(xs)]


def _before(first: Any, states: Any, t: Any) -> Any:
    """The state before step t."""
    return where(t > 0, take(states, ew.maximum(t - 1, 0), axis=0), first)


# --- The kernels ---------------------------------------------------------------------------------


@final
class LayerKernels:
    """What computes all steps of a layer, and what pulls back through them."""

    def __init__(self, cell: str, biased: bool, dtype: Dtype) -> None:
        self._cell, self._dtype = CELLS[cell], dtype
        self._layer = Layer(self._cell, biased)
        self._words = f"{cell}{' with a bias' * biased}"
        gates = self._cell.gates
        state = ["BH"] * self._cell.states
        self._letters = [f"TB{gates}H", f"{gates}HH", *[f"{gates}H"] * biased, *state]
        self._after = [*["TBH"] * self._cell.states, f"TB{gates}H"]
        self._value = self._made("layer", self._layer.forward, self._letters)
        self.value, self.pull = lru_cache(self._value_at), lru_cache(self._pull_at)
        self._pull = lru_cache(self._pull_of)

    def _made(self, what: str, f: Callable[[Sequence[Any]], Any], letters: Sequence[str]) -> Kernel:
        return maker()(f"{what} of {self._words}", f, letters, [self._dtype] * len(letters))

    def _pull_of(self, present: tuple[bool, ...]) -> Kernel:
        letters = [*self._letters, *self._after, *["TBH"] * sum(present)]
        layer = self._layer
        return self._made(
            f"layer back from {present}", lambda xs: layer.backward(present, xs), letters
        )

    def _value_at(self, shape: tuple[int, int, int]) -> Run:
        """At (T, B, H)."""
        return self._value.at(self._shapes(self._letters, shape), self._results(shape))

    def _pull_at(self, shape: tuple[int, int, int], present: tuple[bool, ...]) -> Run:
        """At (T, B, H), from the cotangents of those states that are `present`."""
        letters = [*self._letters, *self._after, *["TBH"] * sum(present)]
        (steps, count, size), gates = shape, self._cell.gates
        wide = (steps, count, gates * size)
        bias = [(gates * size,)] * self._layer.biased
        bars = [*[wide] * (2 - self._cell.adds), *bias]
        bars += [(count, size)] * self._cell.states
        return self._pull(present).at(self._shapes(letters, shape), bars)

    def _results(self, shape: tuple[int, int, int]) -> list[tuple[int, ...]]:
        steps, count, size = shape
        return [*[shape] * self._cell.states, (steps, count, self._cell.gates * size)]

    @staticmethod
    def _shapes(letters: Sequence[str], shape: tuple[int, int, int]) -> list[tuple[int, ...]]:
        sizes = {letter: (n,) for letter, n in zip("TBH", shape, strict=True)}
        return [shape_of(names, sizes) for names in letters]


@lru_cache(maxsize=64)
def kernels(cell: str, biased: bool, dtype: Dtype) -> LayerKernels:
    """Those of a layer."""
    return LayerKernels(cell, biased, dtype)
