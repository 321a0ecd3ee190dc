"""One step of `RNN`, `LSTM` and `GRU` as a module, for loops of one's own. PyTorch's names.

Notation: B sequences, n elements of an input, H size of the state.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, final

import numpy as np

from chainrule.engine.tensors import Tensor
from chainrule.errors import ShapeError
from chainrule.nn import functional
from chainrule.nn.base.module import Module
from chainrule.nn.init import uniform_
from chainrule.nn.layers import check_sizes, parameter
from chainrule.nn.recurrent.steps import States, Step, elman, gru, lstm
from chainrule.ops.shapes.shaping import expand_dims, squeeze
from chainrule.random import Generator


class _Cell(Module):
    """Weights and biases `_ih` (of x), `_hh` (of the state), uniform in +-1 / sqrt(hidden_size)."""

    gates: ClassVar[int]
    """How many blocks of H rows the weights have."""

    def _begin(
        self,
        step: Step,
        input_size: int,
        hidden_size: int,
        bias: bool,
        dtype: Any,
        generator: Generator | None,
    ) -> None:
        """Make the parameters, drawn as PyTorch draws them."""
        check_sizes(type(self).__name__, input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._step = step
        rows, bound = self.gates * hidden_size, 1 / math.sqrt(hidden_size)
        self.weight_ih = parameter((rows, input_size), 0.0, dtype)
        self.weight_hh = parameter((rows, hidden_size), 0.0, dtype)
        self.bias_ih = parameter((rows,), 0.0, dtype) if bias else None
        self.bias_hh = parameter((rows,), 0.0, dtype) if bias else None
        for weight in (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh):
            if weight is not None:
                uniform_(weight, -bound, bound, generator=generator)

    def _run(self, x: Any, state: Any, parts: int) -> States:
        """The state after a step: of B sequences (B, n), or of one (n,)."""
        name, single = type(self).__name__, x.ndim == 1
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{name}: x is (B, input_size) or (input_size,), with input_size "
                f"{self.input_size}, not {tuple(x.shape)}"
            )
        shape = (*x.shape[:-1], self.hidden_size)
        if state is None:
            state = tuple([np.zeros(shape, self.weight_hh.dtype)] * parts)
        for part in state:
            if tuple(part.shape) != shape:
                raise ShapeError(f"{name}: a state is {shape}, not {tuple(part.shape)}")
        if single:
            x, state = expand_dims(x, 0), tuple([expand_dims(s, 0) for s in state])
        share = functional.linear(state[0], self.weight_hh, self.bias_hh)
        new = self._step(functional.linear(x, self.weight_ih, self.bias_ih), share, state)
        return tuple([squeeze(s, 0) for s in new]) if single else new


@final
class RNNCell(_Cell):
    """h' = tanh(W x + b + V h + c), or with `nonlinearity` "relu" that; see `RNN`.

    >>> nn.RNNCell(3, 5)(cr.ones((2, 3))).shape
    (2, 5)
    """

    gates: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self.nonlinearity = nonlinearity
        step = elman("RNNCell", nonlinearity)
        self._begin(step, input_size, hidden_size, bias, dtype, generator)

    def forward(self, x: Any, h: Any = None) -> Tensor:
        """Shapes: (*s, n) -> (*s, hidden_size)."""
        return self._run(x, None if h is None else (h,), 1)[0]


@final
class LSTMCell(_Cell):
    """A step of `LSTM`: the next (h, c).

    >>> h, c = nn.LSTMCell(3, 5)(cr.ones((2, 3)))
    >>> h.shape
    (2, 5)
    """

    gates: ClassVar[int] = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self._begin(lstm, input_size, hidden_size, bias, dtype, generator)

    def forward(self, x: Any, state: tuple[Any, Any] | None = None) -> tuple[Tensor, Tensor]:
        """Shapes: (*s, n) -> (*s, hidden_size), (*s, hidden_size)."""
        h, c = self._run(x, state, 2)
        return h, c


@final
class GRUCell(_Cell):
    """A step of `GRU`.

    >>> nn.GRUCell(3, 5)(cr.ones((2, 3))).shape
    (2, 5)
    """

    gates: ClassVar[int] = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: Any = np.float32,
        generator: Generator | None = None,
    ) -> None:
        self._begin(gru, input_size, hidden_size, bias, dtype, generator)

    def forward(self, x: Any, h: Any = None) -> Tensor:
        """Shapes: (*s, n) -> (*s, hidden_size)."""
        return self._run(x, None if h is None else (h,), 1)[0]
