"""Convolution in any number of dimensions, its transpose, and the unfolding that both rest on.

y[n, o, p] = sum over c, k of w[o, c, k] x[n, c, p stride + k dilation - padding]: a matrix product
of the weight with columns, each the elements that one window sees. The three ops here are the three
ways to read the trilinear form sum(g y) in (x, w, g): each one's derivatives are the other two.

Notation: N batch, C channels in, O channels out, K kernel places, L output places.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from chainrule.dtypes import result_type, rounded_once
from chainrule.graph import apply
from chainrule.op import Array, Need, Spec
from chainrule.ops.families import Linear, Multilinear
from chainrule.ops.shapes.shaping import Shape
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

    def _grouped(self, a: Array) -> Array:
        """(N, groups * rows, L) -> (N, groups, rows, L)."""
        return a.reshape(a.shape[0], self.groups, a.shape[1] // self.groups, a.shape[2])

    def _matrix(self, w: Array) -> Array:
        """(O, C / groups, *kernel) -> (groups, O / groups, C / groups K)."""
        return w.reshape(self.groups, w.shape[0] // self.groups, -1)

    def _flat(self, g: Array) -> Array:
        """(N, O, *out) -> (N, groups, O / groups, L)."""
        return self._grouped(g.reshape(*g.shape[:2], -1))


class Convolve(Convolution):
    """(x, w) -> y."""

    ins: ClassVar[Roles] = ("x", "w")
    out: ClassVar[str] = "g"

    @property
    def name(self) -> str:
        """`conv`."""
        return "conv"

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """One matrix product for each example and group."""
        x, w = xs
        y = np.empty(self.shape(x, w), result_type(x.dtype, w.dtype))
        for run in self.windows.runs(x):
            columns = self._grouped(self.windows.columns(x[run]))
            np.matmul(self._matrix(w), columns, out=self._flat(y[run]))
        return y

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

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A matrix product gives the columns, which are added to where they came from."""
        g, w = xs
        x = np.empty(self.shape(g, w), result_type(g.dtype, w.dtype))
        for run in self.windows.runs(x):
            columns = np.matmul(self._matrix(w).swapaxes(1, 2), self._flat(g[run]))
            x[run] = self.windows.folded(columns)
        return x

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

    @rounded_once
    def eval(self, *xs: Any) -> Any:
        """A matrix product for each example, then their sum."""
        x, g = xs
        w = np.zeros(self.shape(x, g), result_type(x.dtype, g.dtype))
        for run in self.windows.runs(x):
            columns = self._grouped(self.windows.columns(x[run]))
            each = np.matmul(self._flat(g[run]), columns.swapaxes(2, 3))
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
