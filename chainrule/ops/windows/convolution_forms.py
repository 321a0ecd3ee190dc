"""Convolution in any number of dimensions, its transpose, and the unfolding that both rest on.

y[n, o, p] = sum over c, k of w[o, c, k] x[n, c, p stride + k dilation - padding]: a matrix product
of the weight with columns, each the elements that one window sees. The three ops here are the three
ways to read the trilinear form sum(g y) in (x, w, g). The derivatives of each are the other two.

Notation: N batch, C channels in, O channels out, K kernel places, L output places.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.dtypes import result_type, rounded_once
from chainrule.engine.graph import apply
from chainrule.engine.op import Array, Need, Spec
from chainrule.ops.families import Linear, Multilinear
from chainrule.ops.shapes.shaping import Shape
from chainrule.ops.windows.convolution_choice import reads_in_place
from chainrule.ops.windows.direct_convolution import convolved, transposed, weights
from chainrule.ops.windows.products import Columns, columns_of
from chainrule.ops.windows.windows import Windows

Roles = tuple[str, ...]
"""Parts that operands play in the trilinear form: "x", "w", "g"."""


class Convolution(Multilinear):
    """The form sum(g y) without one of x (N, C, *size), w (O, C / groups, *kernel), g (N, O, *out).

    A form of the three below is the derivative for whichever operand it does not take.
    """

    windows: Windows
    groups: int
    ins: ClassVar[Roles]
    """Which operands it takes."""
    out: ClassVar[str]
    """Which one it gives: the operand that it does not take."""
    count: ClassVar[int] = 2  # pyright: ignore[reportIncompatibleVariableOverride]

    @abstractmethod
    def shape(self, *xs: Any) -> Shape:
        """The result's shape, from those of the inputs."""

    @abstractmethod
    def in_place(self, out: Array, xs: Sequence[Array]) -> Array:
        """The value, in `out`, by kernels that read the windows where they are."""

    @abstractmethod
    def by_columns(self, out: Array, xs: Sequence[Array]) -> Array:
        """The value, in `out`, by matrix products of BLAS with copies of what windows see."""

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """In one of two ways: that which is to take less time, by shapes and dtypes alone."""
        spec = self.spec(*xs)
        out = np.empty(spec.shape, spec.dtype)
        operands = {self.out: out, **dict(zip(self.ins, xs, strict=True))}
        if reads_in_place(self.out, operands, self.windows, self.groups):
            return self.in_place(out, xs)
        return self.by_columns(out, xs)

    def spec(self, *xs: Any) -> Spec:
        """The shape, and the promoted dtype."""
        return Spec(self.shape(*xs), result_type(xs[0].dtype, xs[1].dtype))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """For each operand the form without it; the cotangent stands where the result stood."""
        operands = {self.out: g, **dict(zip(self.ins, xs, strict=True))}
        bars: list[Any] = []
        for role, needed in zip(self.ins, need, strict=True):
            form = _WITHOUT[role]
            given = [operands[r] for r in form.ins]
            bars.append(apply(form(self.windows, self.groups), *given) if needed else None)
        return bars

    def _matrix(self, w: Array) -> Array:
        """(O, C / groups, *kernel) -> (groups, O / groups, C / groups K)."""
        return w.reshape(self.groups, w.shape[0] // self.groups, -1)


def _convolved(columns: Columns, x: Array, matrix: Array, y: Array) -> Array:
    """y (N, O, *out), filled with `matrix` (G, O / G, C / G K) times the columns of x."""
    memory: Array | None = None
    for run, seen in columns.chunks(x):
        part = y[run]
        if not columns.wide and part.flags.c_contiguous:
            flat = part.reshape(*part.shape[:2], -1)
            np.matmul(matrix, seen, out=columns.grouped(flat))
            continue
        if memory is None or len(memory) != len(part):
            memory = columns.memory(len(part), y.shape[1], y.dtype)
        np.matmul(matrix, seen, out=columns.grouped(memory))
        part[...] = columns.windowed(memory)
    return y


class Convolve(Convolution):
    """(x, w) -> y."""

    ins: ClassVar[Roles] = ("x", "w")
    out: ClassVar[str] = "g"

    @property
    def name(self) -> str:
        """`conv`."""
        return "conv"

    def in_place(self, out: Array, xs: Sequence[Array]) -> Array:
        """See `direct_convolution.py`."""
        x, w = xs
        return convolved(x, w, out, self.windows, self.groups)

    def by_columns(self, out: Array, xs: Sequence[Array]) -> Array:
        """One matrix product for each example and group."""
        x, w = xs
        return _convolved(columns_of(self.windows, self.groups), x, self._matrix(w), out)

    def shape(self, *xs: Any) -> Shape:
        """(N, O, *out)."""
        x, w = xs
        return (x.shape[0], w.shape[0], *self.windows.out)


class ConvolveInput(Convolution):
    """(g, w) -> x_bar: the transposed convolution."""

    ins: ClassVar[Roles] = ("g", "w")
    out: ClassVar[str] = "x"

    @property
    def name(self) -> str:
        """`conv_transpose`."""
        return "conv_transpose"

    def in_place(self, out: Array, xs: Sequence[Array]) -> Array:
        """See `direct_convolution.py`."""
        g, w = xs
        return transposed(g, w, out, self.windows, self.groups)

    def by_columns(self, out: Array, xs: Sequence[Array]) -> Array:
        """The convolution of g with the reversed kernel; or a matrix product gives the columns,
        which are added to where they came from."""
        (g, w), x = xs, out
        back = self.windows.reversed()
        if back is not None and g.shape[1] <= 2 * x.shape[1]:
            return _convolved(columns_of(back, self.groups), g, self._reversed(w), x)
        columns = columns_of(self.windows, self.groups)
        turned = self._matrix(w).swapaxes(1, 2)
        for run in columns.runs(x):
            part = g[run]
            flat = part.reshape(len(part), self.groups, part.shape[1] // self.groups, -1)
            x[run] = self.windows.folded(np.matmul(turned, flat))
        return x

    def _reversed(self, w: Array) -> Array:
        """(O, C / groups, *kernel) -> (groups, C / groups, O / groups K), each kernel backwards."""
        o, c = w.shape[:2]
        parts = np.flip(w, axis=tuple(range(2, w.ndim))).reshape(
            self.groups, o // self.groups, c, -1
        )
        return np.ascontiguousarray(parts.swapaxes(1, 2)).reshape(self.groups, c, -1)

    def shape(self, *xs: Any) -> Shape:
        """(N, C, *size)."""
        g, w = xs
        return (g.shape[0], w.shape[1] * self.groups, *self.windows.size)


class ConvolveWeight(Convolution):
    """(x, g) -> w_bar."""

    ins: ClassVar[Roles] = ("x", "g")
    out: ClassVar[str] = "w"

    @property
    def name(self) -> str:
        """`conv_weight`."""
        return "conv_weight"

    def in_place(self, out: Array, xs: Sequence[Array]) -> Array:
        """See `direct_convolution.py`."""
        x, g = xs
        return weights(x, g, out, self.windows, self.groups)

    def by_columns(self, out: Array, xs: Sequence[Array]) -> Array:
        """A matrix product for each example, then their sum."""
        (x, g), w = xs, out
        w[...] = 0
        columns = columns_of(self.windows, self.groups)
        memory: Array | None = None
        for run, seen in columns.chunks(x):
            part = g[run]
            if memory is None or len(memory) != len(part):
                memory = columns.memory(len(part), g.shape[1], g.dtype)
            columns.windowed(memory)[...] = part
            each = np.matmul(columns.grouped(memory), seen.swapaxes(2, 3))
            w += np.add.reduce(each, axis=0).reshape(w.shape)
        return w

    def shape(self, *xs: Any) -> Shape:
        """(O, C / groups, *kernel)."""
        x, g = xs
        return (g.shape[1], x.shape[1] // self.groups, *self.windows.kernel)


_WITHOUT: dict[str, type[Convolution]] = {
    form.out: form for form in (Convolve, ConvolveInput, ConvolveWeight)
}


class Unfold(Linear):
    """(N, C, *size) -> (N, C K, L); with `back`, its transpose."""

    windows: Windows
    back: bool

    @property
    def name(self) -> str:
        """`unfold` or `fold`."""
        return "fold" if self.back else "unfold"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A copy; back, a sum."""
        return self.windows.folded(xs[0]) if self.back else self.windows.columns(xs[0])

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the input's dtype."""
        (x,), w = xs, self.windows
        places = math.prod(w.kernel)
        if self.back:
            return Spec((x.shape[0], x.shape[1] // places, *w.size), x.dtype)
        return Spec((x.shape[0], x.shape[1] * places, math.prod(w.out)), x.dtype)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """The other direction."""
        return (apply(Unfold(self.windows, not self.back), g),)
