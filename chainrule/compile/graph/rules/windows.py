"""Windows that slide over an array, as maps, sums and matrix products.

Two ops of the compiler's own say where windows stand; everything else follows from them.

| op | element |
|---|---|
| `SlidingWindows`: (.., *size) -> (.., *kernel, *out) | what kernel place k of window p sees |
| `Spaced`: (.., *kernel, *out) -> (.., *kernel, *size) | what the window has that sees it by k |

A convolution is a matrix product of the weight with what windows see, as in eager code. Pooling is
a reduction of what they see over the kernel. Nothing is copied for a reduction: it reads what it
sees.

Notation: as in `chainrule.ops.windows.convolution`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.compile.graph.compiled_ops import ProgramOp
from chainrule.compile.graph.rules import direct_convolution
from chainrule.compile.graph.rules.decompositions import is_top
from chainrule.compile.graph.rules.elementwise_decompositions import where
from chainrule.compile.graph.rules.rewriter import Rewriter, Rule
from chainrule.compile.graph.terms import Term
from chainrule.engine.op import Spec
from chainrule.ops import elementwise as ew
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import BroadcastTo
from chainrule.ops.reductions.reduction import Extremum, Sum
from chainrule.ops.shapes.shaping import Permute, Reshape, Shape
from chainrule.ops.windows.convolution_forms import Convolve, ConvolveInput, ConvolveWeight, Unfold
from chainrule.ops.windows.pooling import WindowArg, WindowSum
from chainrule.ops.windows.windows import Windows

I64 = np.dtype(np.int64)


class SlidingWindows(ProgramOp):
    """What each window sees: (.., *size) -> (.., *kernel, *out); `fill` beyond the array's ends."""

    windows: Windows
    fill: Any

    @property
    def name(self) -> str:
        """`windows`."""
        return "windows"

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        (x,), w = xs, self.windows
        padded = w.pad(x, self.fill)
        lead = x.shape[: -w.ndim]
        parts = [padded[place] for place in w.kernel_slices()]
        return np.stack(parts, axis=len(lead)).reshape(*lead, *w.kernel, *w.out)

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the input's dtype."""
        (x,), w = xs, self.windows
        return Spec((*x.shape[: -w.ndim], *w.kernel, *w.out), x.dtype)


class Spaced(ProgramOp):
    """Each kernel place's share of the array: (.., *kernel, *out) -> (.., *kernel, *size), 0 where
    the window that would see an element by that place does not exist.
    """

    windows: Windows

    @property
    def name(self) -> str:
        """`spaced`."""
        return "spaced"

    def eval(self, *xs: Any) -> Any:
        """A new array."""
        (x,), w = xs, self.windows
        lead = x.shape[: -2 * w.ndim]
        parts = x.reshape(*lead, -1, *w.out)
        out = np.zeros((*lead, parts.shape[len(lead)], *w.padded), x.dtype)
        inner = [slice(a, a + n) for (a, _), n in zip(w.padding, w.size, strict=True)]
        rest = (slice(None),) * len(lead)
        for i, place in enumerate(w.kernel_slices()):
            out[(*rest, i, *place[1:])] = parts[(*rest, i)]
        return out[(..., *inner)].reshape(*lead, *w.kernel, *w.size)

    def spec(self, *xs: Any) -> Spec:
        """The shape above, and the input's dtype."""
        (x,), w = xs, self.windows
        return Spec((*x.shape[: -2 * w.ndim], *w.kernel, *w.size), x.dtype)


def _kernel_axes(w: Windows, ndim: int) -> Shape:
    """The axes of the kernel in (.., *kernel, *out)."""
    return tuple(range(ndim - 2 * w.ndim, ndim - w.ndim))


def _fold(r: Rewriter, w: Windows, parts: Term) -> Term:
    """(.., *kernel, *out) -> (.., *size): what windows have, added to where they see."""
    spaced = r.op(Spaced(w), parts)
    return r.op(Sum(_kernel_axes(w, len(spaced.shape)), False), spaced)


def _unfold(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,), w = args, op.windows
    if x.dtype.kind == "c":
        return None
    if not op.back:
        return r.op(Reshape(r.plain(op, x).shape), r.op(SlidingWindows(w, 0), x))
    places = math.prod(w.kernel)
    parts = r.op(Reshape((x.shape[0], x.shape[1] // places, *w.kernel, *w.out)), x)
    return _fold(r, w, parts)


def _window_sum(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    (x,), w = args, op.windows
    lead = x.shape[: -w.ndim]
    if not op.back:
        seen = r.op(SlidingWindows(w, 0), x)
        return r.op(Sum(_kernel_axes(w, len(seen.shape)), False), seen)
    ones = r.op(Reshape((*lead, *[1] * w.ndim, *w.out)), x)
    return _fold(r, w, r.op(BroadcastTo((*lead, *w.kernel, *w.out)), ones))


def _window_arg(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """The smallest place, not in the padding, at which the maximum stands, or a NaN."""
    (x,), w = args, op.windows
    if x.dtype.kind not in "iuf":
        return None
    low = -math.inf if x.dtype.kind == "f" else int(np.iinfo(x.dtype).min)
    value = r.op(SlidingWindows(w, low), x)
    axes = _kernel_axes(w, len(value.shape))
    hit = is_top(r, value, r.op(Extremum(True, axes, True), value))
    place = _places(r, w)
    size = math.prod(w.size)
    if w.padded != w.size:
        hit = r.op(ew.logical_and, hit, r.op(ew.greater_equal, place, r.constant(0)))
    return r.op(Extremum(False, axes, False), where(r, hit, place, r.constant(size)))


def _places(r: Rewriter, w: Windows) -> Term:
    """(*kernel, *out): the number of the element that is seen, negative in the padding."""
    total: Term | None = None
    for axis, n in enumerate(w.size):
        step = math.prod(w.size[axis + 1 :])
        row = np.arange(n).reshape([-1 if a == axis else 1 for a in range(w.ndim)]) * step
        far = -math.prod(w.size) * w.ndim
        # made as it is: as a constant it would take the memory of all windows
        part = r.plain(SlidingWindows(w, far), r.constant(np.broadcast_to(row, w.size)))
        total = part if total is None else r.op(ew.add, total, part)
    assert total is not None
    return total


# --- convolution ---------------------------------------------------------------------------------


def _matrix(r: Rewriter, op: Any, w: Term) -> Term:
    """(O, C / groups, *kernel) -> (groups, O / groups, C / groups K)."""
    rows, channels = w.shape[0] // op.groups, w.shape[1]
    places = math.prod(op.windows.kernel)
    return r.op(Reshape((op.groups, rows, channels * places)), w)


def _columns(r: Rewriter, op: Any, x: Term) -> Term:
    """(N, C, *size) -> (N, groups, C / groups K, L)."""
    w = op.windows
    channels = x.shape[1] // op.groups
    shape = (x.shape[0], op.groups, channels * math.prod(w.kernel), math.prod(w.out))
    return r.op(Reshape(shape), r.op(SlidingWindows(w, 0), x))


def _flat(r: Rewriter, op: Any, g: Term) -> Term:
    """(N, O, *out) -> (N, groups, O / groups, L)."""
    return r.op(
        Reshape((g.shape[0], op.groups, g.shape[1] // op.groups, math.prod(op.windows.out))), g
    )


def _alike(r: Rewriter, args: Sequence[Term]) -> list[Term] | None:
    """In one dtype; None where it is none of loops."""
    dtype = np.result_type(*[x.dtype for x in args])
    return [r.cast(x, dtype) for x in args] if dtype.kind in "biuf" else None


def _convolve(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    alike = _alike(r, args)
    if alike is None:
        return None
    x, w = alike
    if direct_convolution.pays(r, "g", op, x.shape[1], w.shape[0], x):
        return direct_convolution.convolve(r, op, x, w)
    y = r.op(MatMul(), _matrix(r, op, w), _columns(r, op, x))
    return r.op(Reshape((x.shape[0], w.shape[0], *op.windows.out)), y)


def _convolve_input(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    alike = _alike(r, args)
    if alike is None:
        return None
    g, w = alike
    windows, channels = op.windows, w.shape[1] * op.groups
    if direct_convolution.pays(r, "x", op, channels, g.shape[1], g):
        return direct_convolution.convolve_input(r, op, g, w)
    columns = r.op(MatMul(True, False), _matrix(r, op, w), _flat(r, op, g))
    shape = (g.shape[0], channels, *windows.kernel, *windows.out)
    return _fold(r, windows, r.op(Reshape(shape), columns))


def _convolve_weight(r: Rewriter, op: Any, args: tuple[Term, ...]) -> Term | None:
    """One product over all examples at once."""
    alike = _alike(r, args)
    if alike is None:
        return None
    x, g = alike
    if direct_convolution.pays(r, "w", op, x.shape[1], g.shape[1], x):
        return direct_convolution.convolve_weight(r, op, x, g)
    left, right = _flat(r, op, g), _columns(r, op, x)

    def together(y: Term) -> Term:
        n, groups, rows, places = y.shape
        turned = r.op(Permute((1, 2, 0, 3)), y)
        return r.op(Reshape((groups, rows, n * places)), turned)

    total = r.op(MatMul(False, True), together(left), together(right))
    return r.op(Reshape((g.shape[1], x.shape[1] // op.groups, *op.windows.kernel)), total)


WINDOWING: dict[type, Rule] = {
    Unfold: _unfold, WindowSum: _window_sum, WindowArg: _window_arg, Convolve: _convolve,
    ConvolveInput: _convolve_input, ConvolveWeight: _convolve_weight,
}  # fmt: skip
"""The rules, by class of op."""

__all__ = ["WINDOWING", "SlidingWindows", "Spaced"]
