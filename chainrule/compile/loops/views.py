"""Views: terms that are other terms' elements in another order, and where elements lie.

An index is a tuple of `Affine`, one for each axis. A view op says at which index of its argument an
element of its result stands (`back`). A `View` says where in a buffer an array lies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

from chainrule.compile.graph.complex_parts import Parts
from chainrule.compile.graph.sizes import Extent, divide, product
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Affine, Buffer, Var, strides_of
from chainrule.engine.op import Alias, Detach
from chainrule.ops.families import BroadcastTo
from chainrule.ops.linalg.base import Diagonal
from chainrule.ops.reductions.reduction import Spread
from chainrule.ops.shapes.shaping import Permute, Reshape
from chainrule.ops.shapes.slices import Slice

Index = tuple[Affine, ...]
ZERO = Affine()


@final
@dataclass(frozen=True, slots=True)
class View:
    """An array in a buffer: element (i, j, ..) is at offset + i strides[0] + j strides[1] + .."""

    buffer: Buffer
    offset: Extent
    strides: tuple[Extent, ...]

    def at(self, index: Index) -> Affine:
        """Where the element at `index` is."""
        place = Affine(self.offset)
        for i, stride in zip(index, self.strides, strict=True):
            place += i * stride
        return place


def index_of(axes: Sequence[Var]) -> Index:
    """The index that counters make; an axis of size 1 needs none."""
    return tuple([ZERO if v.extent == 1 else Affine.of(v) for v in axes])


def runs_along(index: Index, axis: int, var: Var | None) -> bool:
    """Whether an index runs along `var` at that axis."""
    return bool(index) and var is not None and index[axis] == Affine.of(var)


def full_view(buffer: Buffer) -> View:
    """The buffer as an array of its own shape."""
    return View(buffer, 0, strides_of(buffer.shape))


# --- element by element --------------------------------------------------------------------------


def _slice(t: Term, index: Index) -> Index:
    """Where an element of a slice lies in what is sliced."""
    shape = t.args[0].shape
    rest = list(index)
    out: list[Affine] = []
    axis = 0
    for k in expand_key(t.op.key, len(shape)):
        if k is None:
            rest.pop(0)
            continue
        n = shape[axis]
        axis += 1
        if isinstance(k, tuple):
            start, step = bounds(k, n)
            out.append(rest.pop(0) * step + start)
        else:
            out.append(Affine(k + n if isinstance(k, int) and k < 0 else k))
    return tuple(out)


def expand_key(key: Sequence[Any], ndim: int) -> list[Any]:
    """A basic index with an entry for every axis; None stands for a new one."""
    named = len([k for k in key if k is not None and k is not Ellipsis])
    fill: list[Any] = [(None, None, None)] * (ndim - named)
    if Ellipsis in key:
        at = list(key).index(Ellipsis)
        return [*key[:at], *fill, *key[at + 1 :]]
    return [*key, *fill]


def bounds(k: Any, n: Extent) -> tuple[Extent, int]:
    """Where a slice starts and its step."""
    start, stop, step = k
    step = 1 if step is None else step
    if isinstance(n, int) and all(x is None or isinstance(x, int) for x in (start, stop)):
        return slice(start, stop, step).indices(n)[0], step
    if start is None:
        return (0 if step > 0 else n - 1), step
    return (start + n if isinstance(start, int) and start < 0 else start), step


def _permute(t: Term, index: Index) -> Index:
    out = [ZERO] * len(index)
    for i, axis in enumerate(t.op.axes):
        out[axis] = index[i]
    return tuple(out)


def _broadcast(t: Term, index: Index) -> Index:
    return broadcast_index(index, t.args[0].shape)


def broadcast_index(index: Index, shape: Sequence[Extent]) -> Index:
    """The index of the element of an array of `shape` that broadcasting puts at `index`."""
    tail = index[len(index) - len(shape) :] if shape else ()
    return tuple([ZERO if n == 1 else i for i, n in zip(tail, shape, strict=True)])


def _spread(t: Term, index: Index) -> Index:
    if len(t.args[0].shape) == len(index):
        return broadcast_index(index, t.args[0].shape)
    return tuple([i for a, i in enumerate(index) if a not in t.op.axes])


def _same(t: Term, index: Index) -> Index:
    return index


def _diagonal(t: Term, index: Index) -> Index:
    *lead, i = index
    k = t.op.offset
    return (*lead, i + max(0, -k), i + max(0, k))


def _reshape(t: Term, index: Index) -> Index | None:
    """The argument's index, None where that would take a division."""
    groups = group_axes(t.shape, t.args[0].shape)
    if groups is None:
        return None
    out: list[Affine] = [ZERO] * len(t.args[0].shape)
    for new, old in groups:
        flat = ZERO
        for axis, step in zip(new, strides_of([t.shape[a] for a in new]), strict=True):
            flat += index[axis] * step
        steps = strides_of([t.args[0].shape[a] for a in old])
        for axis, step in zip(old, steps, strict=True):
            part, flat = _split(flat, step)
            if part is None:
                return None
            out[axis] = part
    return tuple(out)


def _split(flat: Affine, step: Extent) -> tuple[Affine | None, Affine]:
    """flat // step and flat % step, where they are affine."""
    if step == 1:
        return flat, ZERO
    high, low = Affine(), Affine()
    for v, c in flat.terms:
        by = divide(c, step)
        if by is not None:
            high += Affine(0, ((v, by),))
        else:
            low += Affine(0, ((v, c),))
    if isinstance(flat.const, int) and isinstance(step, int):
        q, r = divmod(flat.const, step)
        high, low = high + q, low + r
    elif flat.const != 0:
        return None, flat
    if not _below(low, step):
        return None, flat
    return high, low


def _below(a: Affine, limit: Extent) -> bool:
    """Whether 0 <= a < limit for certain."""
    if not a.terms and a.const == 0:
        return True
    top: Extent = a.const
    for v, c in a.terms:
        if not isinstance(v, Var) or (isinstance(c, int) and c < 0):
            return False
        top = (v.extent - 1) * c + top
    if isinstance(top, int) and isinstance(limit, int):
        return top < limit
    gap = limit - 1 - top  # for symbols of at least 1: all coefficients must not be negative
    return isinstance(gap, int) and gap >= 0


def group_axes(
    new: Sequence[Extent], old: Sequence[Extent]
) -> list[tuple[list[int], list[int]]] | None:
    """Groups of neighbouring axes of `new` and of `old` with the same number of elements.

    Axes of size 1 are in no group. None if sizes with symbols cannot be told apart.
    """
    a = [i for i, n in enumerate(new) if n != 1]
    b = [i for i, n in enumerate(old) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while a or b:
        left, right = [a.pop(0)] if a else [], [b.pop(0)] if b else []
        if not left or not right:
            return None
        while (x := product([new[i] for i in left])) != (y := product([old[i] for i in right])):
            if a and (not b or _smaller(x, y)):
                left.append(a.pop(0))
            elif b:
                right.append(b.pop(0))
            else:
                return None
        groups.append((left, right))
    return groups


def _smaller(x: Extent, y: Extent) -> bool:
    if isinstance(x, int) and isinstance(y, int):
        return x < y
    return divide(y, x) is not None or (isinstance(x, int) and not isinstance(y, int))


BACK: dict[type, Callable[[Term, Index], Index | None]] = {
    Slice: _slice, Permute: _permute, BroadcastTo: _broadcast, Spread: _spread, Alias: _same,
    Detach: _same, Parts: _same, Reshape: _reshape, Diagonal: _diagonal,
}  # fmt: skip
"""By view op: (term, index) -> the index of its argument."""


def is_view(t: Term) -> bool:
    """Whether `t` only shows elements of its argument."""
    return type(t.op) in BACK


def back(t: Term, index: Index) -> Index | None:
    """At which index of its argument the element of the view `t` at `index` stands."""
    return BACK[type(t.op)](t, index)


def source(t: Term) -> Term:
    """What a chain of views shows."""
    while is_view(t):
        t = t.args[0]
    return t


# --- as a whole ----------------------------------------------------------------------------------


def seen_through(t: Term, view: View) -> View | None:
    """Where the elements of the view `t` lie, if its argument lies at `view`; None: nowhere."""
    if isinstance(t.op, Reshape):
        strides = reshape_strides(view.strides, t.args[0].shape, t.shape)
        return None if strides is None else View(view.buffer, view.offset, strides)
    axes = tuple([Var(f"a{i}", n) for i, n in enumerate(t.shape)])
    index = back(t, tuple([Affine.of(a) for a in axes]))
    assert index is not None
    at = view.at(index)
    return View(view.buffer, at.const, tuple([at.coefficient(a) for a in axes]))


def locate(t: Term, views: Mapping[Term, View]) -> View | None:
    """Where `t` lies, if what it shows lies where `views` say; None: nowhere."""
    if t in views or not is_view(t):
        return views.get(t)
    inner = locate(t.args[0], views)
    return None if inner is None else seen_through(t, inner)


def reshape_strides(
    strides: Sequence[Extent], old: Sequence[Extent], new: Sequence[Extent]
) -> tuple[Extent, ...] | None:
    """The strides of an array under a new shape, None if it would have to be copied."""
    groups = group_axes(new, old)
    if groups is None:
        return None
    out: list[Extent] = [0] * len(new)
    for left, right in groups:
        for a, b in pairwise(right):
            if strides[a] != strides[b] * old[b]:
                return None
        step = strides[right[-1]]
        for axis, inner in zip(left, strides_of([new[i] for i in left]), strict=True):
            out[axis] = inner * step
    return tuple(out)


def placed_before(t: Term, strides: Sequence[Extent]) -> tuple[Extent, ...] | None:
    """The strides that the argument of `t` must have for `t` to have `strides`; None: it cannot."""
    if isinstance(t.op, Permute):
        out: list[Extent] = [0] * len(strides)
        for i, axis in enumerate(t.op.axes):
            out[axis] = strides[i]
        return tuple(out)
    if isinstance(t.op, Reshape):
        return reshape_strides(strides, t.shape, t.args[0].shape)
    if isinstance(t.op, Alias | Detach):
        return tuple(strides)
    return None
