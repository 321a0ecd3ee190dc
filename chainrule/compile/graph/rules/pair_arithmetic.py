"""Arithmetic on terms, and on pairs of them, which are complex numbers: rules are written in it.

Notation: `m` makes terms; `z w` pairs, `x y` real and imaginary part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.graph.rules.rewriter import is_constant, number
from chainrule.compile.graph.terms import Term, Terms
from chainrule.ops import elementwise as ew
from chainrule.ops.families import BroadcastTo, Elementwise
from chainrule.ops.indexing.selection import Where
from chainrule.ops.shapes.joining import Concat
from chainrule.ops.shapes.shaping import Astype, Reshape
from chainrule.ops.shapes.slices import Slice

WHOLE = (None, None, None)
"""The slice of all elements."""


@final
@dataclass(slots=True)
class Maker:
    """Makes terms; `like` tells the user's line. The terms `unchanged` are to stay as they are."""

    terms: Terms
    like: Term | None = None
    unchanged: frozenset[Term] = frozenset()

    def op(self, op: Any, *xs: Num | Term | float) -> Num:
        """`op` of terms and numbers; of numbers that are known, the number."""
        args = [self.num(x).term for x in xs]
        if isinstance(op, Elementwise) and all(is_constant(a) and a.shape == () for a in args):
            with np.errstate(all="ignore"):
                return self.num(np.asarray(op.eval(*[a.value for a in args])))
        return Num(self, self.terms.op(op, args, like=self.like))

    def num(self, x: Any) -> Num:
        """A term, a number or an array."""
        if isinstance(x, Num):
            return x
        return Num(self, x if isinstance(x, Term) else self.terms.constant(x))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Num:
    """A real term; a Python number beside it takes its dtype."""

    m: Maker
    term: Term

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the term."""
        return self.term.shape

    @property
    def dtype(self) -> Any:
        """Of the term."""
        return self.term.dtype

    # fmt: off
    def __add__(self, x: Num | float) -> Num: return self.m.op(ew.add, self, x)
    def __sub__(self, x: Num | float) -> Num: return self.m.op(ew.sub, self, x)
    def __rsub__(self, x: float) -> Num: return self.m.op(ew.sub, x, self)
    def __mul__(self, x: Num | float) -> Num: return self.m.op(ew.mul, self, x)
    def __truediv__(self, x: Num | float) -> Num: return self.m.op(ew.div, self, x)
    def __rtruediv__(self, x: float) -> Num: return self.m.op(ew.div, x, self)
    def __neg__(self) -> Num: return self.m.op(ew.neg, self)
    def __gt__(self, x: Num | float) -> Num: return self.m.op(ew.greater, self, x)
    def __lt__(self, x: Num | float) -> Num: return self.m.op(ew.less, self, x)
    def __ge__(self, x: Num | float) -> Num: return self.m.op(ew.greater_equal, self, x)
    def __and__(self, x: Num) -> Num: return self.m.op(ew.logical_and, self, x)
    def __or__(self, x: Num) -> Num: return self.m.op(ew.logical_or, self, x)
    def __invert__(self) -> Num: return self.m.op(ew.logical_not, self)
    # fmt: on

    def where(self, a: Num | float, b: Num | float) -> Num:
        """`a` where it holds, `b` elsewhere."""
        return self.m.op(Where(), self, a, b)

    def cast(self, dtype: Any) -> Num:
        """As a `dtype`."""
        if (n := number(self.term)) is not None:
            return self.m.num(np.asarray(n, dtype))
        return self if self.dtype == dtype else self.m.op(Astype(np.dtype(dtype)), self)

    def spread(self, shape: tuple[int, ...]) -> Num:
        """Repeated to `shape`."""
        return self if self.shape == shape else self.m.op(BroadcastTo(shape), self)

    def reshape(self, shape: Sequence[int]) -> Num:
        """The same elements in another shape."""
        return self if self.shape == tuple(shape) else self.m.op(Reshape(tuple(shape)), self)

    def cut(self, axis: int, start: Any, stop: Any = None, step: Any = None) -> Num:
        """A slice along `axis`."""
        key = [WHOLE] * len(self.shape)
        key[axis] = (start, stop, step)
        return self.m.op(Slice(tuple(key)), self)

    def at(self, axis: int, i: int) -> Num:
        """The elements number `i` along `axis`, which goes."""
        key: list[Any] = [WHOLE] * len(self.shape)
        key[axis] = i
        return self.m.op(Slice(tuple(key)), self)


def is_zero(x: Num) -> bool:
    """Whether it is the number 0, without a sign."""
    value = x.term.value
    return is_constant(x.term) and x.shape == () and value == 0 and not np.signbit(value)


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """x + iy. An imaginary part that is not there is 0."""

    re: Num
    imag: Num | None

    @property
    def im(self) -> Num:
        """y; the number 0 where it is not there."""
        return self.re.m.num(np.zeros((), self.re.dtype)) if self.imag is None else self.imag

    @property
    def shape(self) -> tuple[int, ...]:
        """Of both parts."""
        return self.re.shape

    @property
    def dtype(self) -> Any:
        """Of both parts."""
        return self.re.dtype

    def each(self, f: Callable[[Num], Num]) -> Pair:
        """`f` of both parts, which must be linear."""
        return Pair(f(self.re), None if self.imag is None else f(self.imag))

    def cast(self, dtype: Any) -> Pair:
        """With parts of `dtype`."""
        return self.each(lambda x: x.cast(dtype))

    def broadcast_to(self, shape: tuple[int, ...]) -> Pair:
        """With parts of `shape`, to which they broadcast."""
        there = self.imag is not None and not is_zero(self.imag)
        return Pair(self.re.spread(shape), self.im.spread(shape) if there else None)

    def full(self) -> Pair:
        """With an imaginary part."""
        return Pair(self.re, self.im.spread(self.shape))

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.re - other.re, self.im - other.im)

    def __mul__(self, other: Pair | Num | float) -> Pair:
        if not isinstance(other, Pair):
            return self.each(lambda x: x * other)
        a, b, c, d = self.re, self.im, other.re, other.im
        return Pair(a * c - b * d, a * d + b * c)

    def conj(self) -> Pair:
        """x - iy."""
        return Pair(self.re, (-self.im).spread(self.shape))

    def times_i(self) -> Pair:
        """i times it."""
        return Pair((-self.im).spread(self.shape), self.re)

    def back(self) -> Pair:
        """-i times it."""
        return Pair(self.im.spread(self.shape), -self.re)

    def swapped(self) -> Pair:
        """y + ix."""
        return Pair(self.im.spread(self.shape), self.re)

    def reshape(self, shape: Sequence[int]) -> Pair:
        """The same elements in another shape."""
        return self.each(lambda x: x.reshape(shape))

    def cut(self, axis: int, start: Any, stop: Any = None, step: Any = None) -> Pair:
        """A slice along `axis`."""
        return self.each(lambda x: x.cut(axis, start, stop, step))

    def at(self, axis: int, i: int) -> Pair:
        """The elements number `i` along `axis`, which goes."""
        return self.each(lambda x: x.at(axis, i))


def concat(parts: Sequence[Pair], axis: int) -> Pair:
    """One after another along `axis`."""
    m, full = parts[0].re.m, [p.full() for p in parts]
    re, im = ([x.re for x in full], [x.im for x in full])
    return Pair(m.op(Concat(axis), *re), m.op(Concat(axis), *im))


def stack(parts: Sequence[Pair], axis: int) -> Pair:
    """Along a new axis."""

    def wide(z: Pair) -> Pair:
        return z.full().reshape((*z.shape[:axis], 1, *z.shape[axis:]))

    return concat([wide(z) for z in parts], axis)
