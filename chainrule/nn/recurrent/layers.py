"""RNN, LSTM and GRU: layers, both directions, sequences of different lengths. PyTorch's names.

A layer's products with its whole input are made at once; what is left for each step is a product
with the state, in `scan`, which a compiled function turns into a native loop.

Sequences of different lengths come with `lengths` (PyTorch packs them): behind its end a sequence
is 0 in the result, and its last state is that at its end, where its backward direction begins.

Notation: T steps, B sequences, H size of the state.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import numpy as np

from chainrule.engine.dtypes import result_type
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.nn.init import uniform_
from chainrule.nn.layers import check_sizes, parameter
from chainrule.nn.recurrent.recurrence import recurrence
from chainrule.nn.recurrent.steps import States, Step, elman, gru, lstm
from chainrule.ops import elementwise as ew
from chainrule.ops.indexing.selection import where
from chainrule.ops.shapes.joining import concat, stack
from chainrule.ops.shapes.shaping import astype, expand_dims, squeeze, swapaxes
from chainrule.ops.shapes.slices import flip
from chainrule.random import Generator
from chainrule.transforms.scan import scan


class _Recurrent(Module):
    """What all share; a subclass names one step.

    Weights are `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, ..., with `_reverse`
    behind those of the other direction, all uniform in +-1 / sqrt(hidden_size).
    """

    gates: ClassVar[int]
    """How many blocks of H rows the weights have."""
    state_count: ClassVar[int] = 1
    """How many parts the state has."""

    def _begin(
        self,
        cell: str,
        step: Step,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        dtype: Any,
        generator: Generator | None,
        proj_size: int = 0,
    ) -> None:
        """Check the sizes, and make the parameters of each layer and direction."""
        name = type(self).__name__
        check_sizes(name, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        if not 0 <= dropout <= 1:
            raise ConfigError(f"{name}: dropout is a probability, not {dropout}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.dropout, self.bidirectional = batch_first, dropout, bidirectional
        self.proj_size = proj_size
        self._step, self._cell = step, cell
        self._out = proj_size or hidden_size
        self._generator = generator
        bound = 1 / math.sqrt(hidden_size)
        rows = self.gates * hidden_size
        for layer in range(num_layers):
            width = self._out * self._directions if layer else input_size
            for end in ["", "_reverse"][: self._directions]:
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, self._out)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for kind, shape in shapes.items():
                    weight = parameter(shape, 0.0, dtype)
                    uniform_(weight, -bound, bound, generator=generator)
                    setattr(self, f"{kind}_l{layer}{end}", weight)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _run(self, x: Any, state: Any, lengths: Any) -> tuple[Tensor, States]:
        """All layers, of (T, B, n) or (B, T, n), or (T, n) without an axis of sequences."""
        single = x.ndim == 2
        name = type(self).__name__
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: x has 3 axes, or 2 for one sequence, the last of size input_size "
                f"{self.input_size}, not {tuple(x.shape)}"
            )
        if single:
            x = expand_dims(x, 1)
            state = None if state is None else tuple([expand_dims(s, 1) for s in state])
        elif self.batch_first:
            x = swapaxes(x, 0, 1)
        steps, count = int(x.shape[0]), int(x.shape[1])
        state = self._state(x, state, count)
        inside = _inside(name, lengths, steps, count)
        last: list[States] = []
        for layer in range(self.num_layers):
            outs: list[Any] = []
            for k in range(self._directions):
                row = layer * self._directions + k
                first = tuple([s[row] for s in state])
                y, end = self._layer(x, first, layer, k == 1, inside)
                outs.append(y)
                last.append(end)
            x = outs[0] if len(outs) == 1 else concat(outs, axis=-1)
            if self.dropout and layer + 1 < self.num_layers:
                x = functional.dropout(
                    x, self.dropout, training=self.training, generator=self._generator
                )
        final = tuple([stack([s[i] for s in last]) for i in range(self.state_count)])
        if single:
            return squeeze(x, 1), tuple([squeeze(s, 1) for s in final])
        return swapaxes(x, 0, 1) if self.batch_first else x, final

    def _state(self, x: Any, state: Any, count: int) -> States:
        """The state to begin with: zeros unless it is given, of the right shape, and of the dtype
        that each step gives it."""
        rows = self.num_layers * self._directions
        shapes = [(rows, count, n) for n in (self._out, self.hidden_size)[: self.state_count]]
        dtype = result_type(x.dtype, vars(self)["weight_hh_l0"].dtype)
        if state is None:
            return tuple([np.zeros(shape, dtype) for shape in shapes])
        for part, shape in zip(state, shapes, strict=True):
            if tuple(part.shape) != shape:
                raise ShapeError(
                    f"{type(self).__name__}: a state is {shape} (layers times directions, "
                    f"sequences, hidden_size), not {tuple(part.shape)}"
                )
        return tuple([s if s.dtype == dtype else astype(s, dtype) for s in state])

    def _layer(
        self, x: Any, first: States, layer: int, back: bool, inside: Any
    ) -> tuple[Any, States]:
        """One direction of a layer: (T, B, n) -> (T, B, H), and its last state."""
        end = f"_l{layer}{'_reverse' if back else ''}"
        weights = vars(self)
        share = functional.linear(x, weights[f"weight_ih{end}"], weights.get(f"bias_ih{end}"))
        weight, bias = weights[f"weight_hh{end}"], weights.get(f"bias_hh{end}")
        shorter = weights.get(f"weight_hr{end}")
        if back:
            share = flip(share, axis=0)
            inside = None if inside is None else flip(inside, axis=0)

        def step(state: States, xs: Any) -> tuple[States, Any]:
            now, here = xs if inside is not None else (xs, None)
            new = self._step(now, functional.linear(state[0], weight, bias), state)
            if shorter is not None:
                new = (functional.linear(new[0], shorter), *new[1:])
            if here is None:
                return new, new[0]
            kept = tuple([where(here, a, b) for a, b in zip(new, state, strict=True)])
            return kept, where(here, new[0], 0)

        first = tuple([asarray(s) for s in first])
        if inside is None and shorter is None:
            found = recurrence(self._cell, share, weight, bias, first)
            if found is not None:
                y = found[0]
                return flip(y, axis=0) if back else y, tuple([s[-1] for s in found])
        last, y = scan(step, first, share if inside is None else (share, inside))
        return flip(y, axis=0) if back else y, last


def _inside(name: str, lengths: Any, steps: int, count: int) -> Any:
    """(T, B, 1): which steps are in their sequence."""
    if lengths is None:
        return None
    lengths = asarray(lengths)
    if lengths.dtype.kind not in "iu" or tuple(lengths.shape) != (count,):
        raise ShapeError(
            f"{name}: lengths are {count} integers, one for each sequence, not {lengths.dtype} "
            f"{tuple(lengths.shape)}"
        )
    return expand_dims(ew.less(np.arange(steps)[:, None], lengths), -1)


@final
class RNN(_Recurrent):
    """h' = tanh(W x + b + V h + c) in each step, or with `nonlinearity` "relu" that. Elman 1990.

    >>> y, state = nn.RNN(3, 5)(cr.ones((7, 2, 3)))
    >>> y.shape, state.shape
    ((7, 2, 5), (1, 2, 5))
    """

    gates: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        self._begin(
            nonlinearity, elman("RNN", nonlinearity), input_size, hidden_size, num_layers, bias,
            batch_first, dropout, bidirectional, dtype, generator,
        )  # fmt: skip

    def forward(self, x: Any, h: Any = None, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """Shapes: (*s, n) -> (*s, m), (k, *t, hidden_size)."""
        y, (h,) = self._run(x, None if h is None else (h,), lengths)
        return y, h


@final
class LSTM(_Recurrent):
    """Long short-term memory; a state is (h, c). Hochreiter & Schmidhuber 1997, Gers et al. 2000.

    i, f, o = sigmoid, g = tanh of four blocks of W x + b + V h + d;
    c' = f c + i g; h' = o tanh(c'),
    times a matrix (proj_size, hidden_size) if there is a `proj_size`.

    >>> y, (h, c) = nn.LSTM(3, 5, batch_first=True)(cr.ones((2, 7, 3)))
    >>> y.shape, h.shape
    ((2, 7, 5), (1, 2, 5))
    """

    gates: ClassVar[int] = 4
    state_count: ClassVar[int] = 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        if type(proj_size) is not int or not 0 <= proj_size < max(hidden_size, 1):
            raise ConfigError(
                f"LSTM: proj_size is smaller than hidden_size {hidden_size}, or 0 for none, not "
                f"{proj_size!r}"
            )
        self._begin(
            "lstm", lstm, input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, dtype, generator, proj_size,
        )  # fmt: skip

    def forward(
        self, x: Any, state: tuple[Any, Any] | None = None, lengths: Any = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Shapes: (*s, n) -> (*s, m), [(k, *t, n_i)]."""
        y, (h, c) = self._run(x, state, lengths)
        return y, (h, c)


@final
class GRU(_Recurrent):
    """Gated recurrent units. Cho et al. 2014, arXiv:1406.1078, with the reset gate as in PyTorch.

    r, z = sigmoid of two blocks of W x + b + V h + d; n = tanh(W x + b + r (V h + d)) of the third;
    h' = (1 - z) n + z h.

    >>> y, state = nn.GRU(3, 5)(cr.ones((7, 2, 3)))
    >>> y.shape, state.shape
    ((7, 2, 5), (1, 2, 5))
    """

    gates: ClassVar[int] = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self._begin(
            "gru", gru, input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional, dtype, generator,
        )  # fmt: skip

    def forward(self, x: Any, h: Any = None, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """Shapes: (*s, n) -> (*s, m), (k, *t, hidden_size)."""
        y, (h,) = self._run(x, None if h is None else (h,), lengths)
        return y, h
