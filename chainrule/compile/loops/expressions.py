"""What kernels compute with: buffers, counters, offsets, expressions. Statements are in
`statements.py`.

    expr   := literal | local | buffer "[" offset "]" ["if" expr] | index | fn "(" expr* ")"
    offset := extent + sum of extent * (var | expr)

Buffers are flat; an offset counts elements. Expressions are interned by a `Exprs`, so equal ones
are one object. Everything is immutable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from chainrule.compile.graph.sizes import Extent, product
from chainrule.compile.loops.functions import value_dtype

Dtype = Any
Role = Literal["input", "state", "result", "scratch", "constant"]


ROOM = 16


@final
@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Memory for numbers. `shape` and `label` are for readers; the size is what counts.

    An input and a state belong to the caller, a state is also written to; a result is new; a
    constant has `value`. With a `run`, it is made of runs of so many elements, and behind each
    there are `ROOM` elements that nobody reads: vectors may go beyond its end.
    """

    name: str
    dtype: Dtype
    shape: tuple[Extent, ...]
    role: Role
    value: Any = None
    label: str = ""
    run: Extent | None = None

    @property
    def size(self) -> Extent:
        """Number of elements."""
        return product(self.shape)

    def __repr__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, eq=False, slots=True)
class Var:
    """A loop's counter, from 0 to `extent` - 1."""

    name: str
    extent: Extent

    def __repr__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, eq=False, slots=True)
class Local:
    """A number in a register."""

    name: str
    dtype: Dtype

    def __repr__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, slots=True)
class Affine:
    """`const` plus the sum of coefficient times variable; a variable may be an integer `Expr`."""

    const: Extent = 0
    terms: tuple[tuple[Var | Expr, Extent], ...] = ()

    @staticmethod
    def of(x: Affine | Var | Expr | Extent) -> Affine:
        """`x` itself."""
        if isinstance(x, Affine):
            return x
        return Affine(0, ((x, 1),)) if isinstance(x, Var | Expr) else Affine(x)

    def __add__(self, other: Affine | Var | Expr | Extent) -> Affine:
        other, total = Affine.of(other), dict(self.terms)
        for v, c in other.terms:
            total[v] = total.get(v, 0) + c
        terms = tuple([(v, c) for v, c in total.items() if c != 0])
        return Affine(self.const + other.const, terms)

    def __sub__(self, other: Affine | Var | Expr | Extent) -> Affine:
        return self + Affine.of(other) * -1

    def __mul__(self, by: Extent) -> Affine:
        if by == 0:
            return Affine()
        return Affine(self.const * by, tuple([(v, c * by) for v, c in self.terms]))

    def coefficient(self, var: Var) -> Extent:
        """What `var` is multiplied by."""
        for v, c in self.terms:
            if v is var:
                return c
        return 0

    def __str__(self) -> str:
        words = [f"{v}" if c == 1 else f"{_factor(c)}*{v}" for v, c in self.terms]
        if self.const != 0 or not words:
            words.append(str(self.const))
        return " + ".join(words)


def _factor(c: Extent) -> str:
    return str(c) if isinstance(c, int) or len(c.terms) == 1 else f"({c})"


@final
@dataclass(frozen=True, eq=False, slots=True)
class Expr:
    """A number: `kind` says what `of` holds.

    | kind | of |
    |---|---|
    | `lit` | a Python number |
    | `local` | a `Local` |
    | `load` | (Buffer, Affine, Expr or None): the element there; 0 where the condition fails |
    | `index` | an `Affine`, as an int64 |
    | `fn` | (name, *arguments) |

    `free` are the loop counters and locals that it depends on.
    """

    kind: Literal["lit", "local", "load", "index", "fn"]
    of: Any
    dtype: Dtype
    free: frozenset[Var | Local]

    def __str__(self) -> str:
        match self.kind:
            case "load":
                buffer, at, when = self.of
                return f"{buffer.name}[{at}]" + (f" if {when}" if when is not None else "")
            case "fn":
                return f"{self.of[0]}({', '.join(map(str, self.of[1:]))})"
            case _:
                return str(self.of)

    __repr__ = __str__


@final
class Exprs:
    """Makes expressions, each only once."""

    def __init__(self) -> None:
        self._known: dict[Any, Expr] = {}

    def lit(self, value: Any, dtype: Dtype) -> Expr:
        """The number `value`."""
        dtype = np.dtype(dtype)
        plain = np.asarray(value).astype(dtype).item()
        return self._make("lit", plain, dtype, (repr(plain),), frozenset())

    def local(self, local: Local) -> Expr:
        """What `local` holds."""
        return self._make("local", local, local.dtype, (local,), frozenset([local]))

    def load(self, buffer: Buffer, at: Affine, when: Expr | None = None) -> Expr:
        """The element of `buffer` at `at`; 0 where `when` is given and false."""
        free = _free(at) | (when.free if when is not None else frozenset[Any]())
        return self._make("load", (buffer, at, when), buffer.dtype, (buffer, at, when), free)

    def index(self, at: Affine) -> Expr:
        """`at` as a number."""
        return self._make("index", at, np.dtype(np.int64), (at,), _free(at))

    def fn(self, name: str, *args: Expr, dtype: Dtype | None = None) -> Expr:
        """The function `name` of `args`. Only `cast` needs the dtype of its value."""
        dtype = value_dtype(name, *[a.dtype for a in args]) if dtype is None else np.dtype(dtype)
        free = frozenset[Var | Local]().union(*[a.free for a in args])
        return self._make("fn", (name, *args), dtype, (name, *args), free)

    def both(self, a: Expr | None, b: Expr) -> Expr:
        """Whether both conditions hold; only `b` if there is no `a`."""
        return b if a is None else self.fn("logical_and", a, b)

    def cast(self, x: Expr, dtype: Dtype) -> Expr:
        """`x` as a `dtype`."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.kind == "lit":
            with np.errstate(all="ignore"):
                return self.lit(np.asarray(x.of, x.dtype).astype(dtype), dtype)
        return self.fn("cast", x, dtype=dtype)

    def _make(self, kind: Any, of: Any, dtype: Dtype, key: Any, free: frozenset[Any]) -> Expr:
        full = (kind, dtype, *key)
        found = self._known.get(full)
        if found is None:
            found = self._known[full] = Expr(kind, of, dtype, free)
        return found


def _free(at: Affine) -> frozenset[Var | Local]:
    return frozenset[Var | Local]().union(
        *[v.free if isinstance(v, Expr) else frozenset([v]) for v, _ in at.terms]
    )


def computable(dtype: Dtype) -> bool:
    """Whether loops know numbers of `dtype`: bools, integers, floats up to 8 bytes. float16 and
    bfloat16 they only move and cast."""
    return dtype.kind in "biufV" and dtype.itemsize <= 8


def within(e: Expr) -> Iterator[Expr]:
    """`e` and every expression in it, each once."""
    seen: set[Expr] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if x in seen:
            continue
        seen.add(x)
        yield x
        stack += operands_of(x)


def operands_of(e: Expr) -> Sequence[Expr]:
    """The expressions that `e` is directly computed from."""
    match e.kind:
        case "fn":
            return e.of[1:]
        case "load":
            return [*in_offset(e.of[1]), *([] if e.of[2] is None else [e.of[2]])]
        case "index":
            return in_offset(e.of)
        case _:
            return []


def in_offset(at: Affine) -> list[Expr]:
    """The expressions that an offset is computed from, as it stands."""
    return [v for v, _ in at.terms if isinstance(v, Expr)]


def upper_bits(e: Exprs, i: Affine, k: int) -> Affine:
    """i // 2^k."""
    return Affine.of(e.fn("bitwise_right_shift", e.index(i), e.lit(k, np.int64)))


def lower_bits(e: Exprs, i: Affine, k: int) -> Affine:
    """i % 2^k."""
    return Affine.of(e.fn("bitwise_and", e.index(i), e.lit((1 << k) - 1, np.int64)))


def counter_bits(x: Expr) -> tuple[Affine, bool, int] | None:
    """i, whether it is its upper bits, and k, if `x` is one of these two; otherwise None."""
    if x.kind != "fn" or x.of[0] not in ("bitwise_right_shift", "bitwise_and"):
        return None
    name, index, by = x.of
    if index.kind != "index" or by.kind != "lit":
        return None
    if name == "bitwise_right_shift":
        return (index.of, True, by.of) if by.of >= 0 else None
    return (index.of, False, by.of.bit_length()) if by.of >= 0 and not by.of & (by.of + 1) else None


def strides_of(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides, in elements, of a contiguous array."""
    out: list[Extent] = []
    step: Extent = 1
    for n in reversed(shape):
        out.append(step)
        step = n * step
    return tuple(reversed(out))
