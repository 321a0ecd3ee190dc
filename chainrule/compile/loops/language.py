"""The loop language: what kernels are written in, between the graph of terms and machine code.

    program   := buffer* kernel*
    kernel    := name "(" buffer* ")" "{" statement* "}"
    statement := "for" var "<" extent ["upto" offset] ["lanes" | "parallel"] "{" statement* "}"
               | local "=" expr                       a number, set once or folded into
               | local fold "=" expr                  fold := + * max min and or
               | buffer "[" offset "]" ["+"] "=" expr
               | "product" ...                        a matrix product, tiled by the backend
               | routine "(" argument* ")"            one of LAPACK's
               | buffer* "=" "eager" op "(" buffer* ")" ["if" buffer]    an op of its own, in Python
               | "while" buffer "{" kernel* "}"       again and again, as long as a bool holds
    argument  := letter | extent | ("in" | "out" | "inout") buffer "[" offset "; " extent "]"
    expr      := literal | local | buffer "[" offset "]" ["if" expr] | index | fn "(" expr* ")"
    offset    := extent + sum of extent * (var | expr)

Buffers are flat; an offset counts elements. Expressions are interned by a `Exprs`, so equal ones
are one object. Everything is immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np

from chainrule.compile.terms.sizes import Extent, product

Dtype = Any
Role = Literal["input", "state", "result", "scratch", "constant"]
Fold = Literal["add", "mul", "maximum", "minimum", "logical_or", "logical_and"]
Mode = Literal["serial", "lanes", "parallel"]


@final
@dataclass(eq=False, slots=True)
class Buffer:
    """Memory for numbers. `shape` and `label` are for readers; the size is what counts.

    An input and a state belong to the caller, a state is also written to; a result is new; a
    constant has `value`.
    """

    name: str
    dtype: Dtype
    shape: tuple[Extent, ...]
    role: Role
    value: Any = None
    label: str = ""

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
    def of(x: Var | Extent | Expr) -> Affine:
        """`x` itself."""
        return Affine(0, ((x, 1),)) if isinstance(x, Var | Expr) else Affine(x)

    def plus(self, other: Affine) -> Affine:
        """The sum."""
        total = dict(self.terms)
        for v, c in other.terms:
            c = total.get(v, 0) + c
            total[v] = c
        terms = tuple([(v, c) for v, c in total.items() if c != 0])
        return Affine(self.const + other.const, terms)

    def times(self, by: Extent) -> Affine:
        """`by` times as much."""
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

    def fn(self, name: str, *args: Expr, dtype: Dtype) -> Expr:
        """The function `name` of `args`."""
        dtype = np.dtype(dtype)
        free = frozenset[Var | Local]().union(*[a.free for a in args])
        return self._make("fn", (name, *args), dtype, (name, *args), free)

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


# --- statements ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False, slots=True)
class For:
    """`body` for each value of `var`; with "lanes" in vectors of them, in any order otherwise.

    `upto`, at most the counter's extent, is where the loop ends, if counters further out decide.
    """

    var: Var
    body: tuple[Stmt, ...]
    mode: Mode = "serial"
    upto: Affine | None = None


@final
@dataclass(frozen=True, eq=False, slots=True)
class Let:
    """`local` starts as `value`."""

    local: Local
    value: Expr


@final
@dataclass(frozen=True, eq=False, slots=True)
class Into:
    """`local` becomes the `fold` of itself and `value`."""

    local: Local
    fold: Fold
    value: Expr


@final
@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """The element of `buffer` at `at` becomes `value`; with `add`, `value` is added to it."""

    buffer: Buffer
    at: Affine
    value: Expr
    add: bool = False


@final
@dataclass(frozen=True, eq=False, slots=True)
class Ahead:
    """Memory that is read soon: `rows` rows of `length` elements, `row` apart. To ask for it is to
    have it earlier, no more, so that it may go beyond the buffer."""

    buffer: Buffer
    at: Affine
    rows: Extent
    row: Extent
    length: Extent


@final
@dataclass(frozen=True, eq=False, slots=True)
class Product:
    """For each i and j: `acc` is the sum over k of left(i, k) * right(k, j); then `body`.

    `right` is contiguous along j, or does not depend on j. Meanwhile `ahead` is asked for.
    """

    i: Var
    j: Var
    k: tuple[Var, ...]
    left: Expr
    right: Expr
    acc: Local
    body: tuple[Stmt, ...]
    ahead: Ahead | None = None


@final
@dataclass(frozen=True, eq=False, slots=True)
class Matrix:
    """Where BLAS finds a matrix: rows are `row` apart, columns `col`; one of them is 1."""

    buffer: Buffer
    at: Affine
    row: Extent
    col: Extent


@final
@dataclass(frozen=True, eq=False, slots=True)
class Gemm:
    """out = left @ right (+ out with `add`), (m, k) @ (k, n) -> (m, n), by BLAS.

    `upto` names one of m, n and k, and where it ends: at most there.
    """

    m: Extent
    n: Extent
    k: Extent
    left: Matrix
    right: Matrix
    out: Matrix
    add: bool = False
    upto: tuple[str, Affine] | None = None

    @property
    def sizes(self) -> tuple[Extent | Affine, ...]:
        """m, n and k as they are in a run."""
        name, end = self.upto or ("", Affine())
        return tuple([end if x == name else getattr(self, x) for x in ("m", "n", "k")])


@final
@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """Memory that a routine is given: so many elements of `buffer` from `at` on, and whether it
    reads what is there, writes, or both."""

    buffer: Buffer
    at: Affine
    size: Extent
    use: Literal["in", "out", "inout"]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Routine:
    """A routine of LAPACK's for floats of `dtype`, by its name without the letter for these. As all
    of them it wants matrices column by column, and its integers are of 4 bytes. It is not called
    where one of its sizes is 0."""

    name: str
    dtype: Dtype
    args: tuple[str | Extent | Span, ...]

    def spans(self, *uses: str) -> list[Span]:
        """The memory that it uses in one of these ways."""
        return [x for x in self.args if isinstance(x, Span) and x.use in uses]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Strided:
    """An array for an op in its eager form: where it starts, its shape and strides in elements."""

    buffer: Buffer
    offset: Extent
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Host:
    """An op in its eager form, on whole arrays: one that has no loops; or one for which other
    kernels did what they could, if that was not enough, of which the one bool `when` tells."""

    op: Any
    inputs: tuple[Strided, ...]
    outputs: tuple[Strided, ...]
    when: Buffer | None = None


@final
@dataclass(frozen=True, eq=False, slots=True)
class While:
    """`kernels` in order, again and again as long as `going`, one bool, holds before a turn. It is
    all that its kernel is."""

    going: Buffer
    kernels: tuple[Kernel, ...]


Stmt = For | Let | Into | Store | Product | Gemm | Routine | Host | While


@final
@dataclass(eq=False, slots=True)
class Kernel:
    """A piece of the program that runs as a whole; `about` says what it computes."""

    name: str
    body: tuple[Stmt, ...]
    about: tuple[str, ...] = ()

    def buffers(self) -> tuple[list[Buffer], list[Buffer]]:
        """Those that it reads and those that it writes, in the order of appearance."""
        reads: dict[Buffer, None] = {}
        writes: dict[Buffer, None] = {}
        for s in statements(self.body):
            for b in loads_of(s):
                reads[b] = None
            match s:
                case Store():
                    writes[s.buffer] = None
                    if s.add:
                        reads[s.buffer] = None
                case Gemm():
                    reads[s.left.buffer] = reads[s.right.buffer] = None
                    writes[s.out.buffer] = None
                    if s.add:
                        reads[s.out.buffer] = None
                case Routine():
                    reads |= dict.fromkeys([x.buffer for x in s.spans("in", "inout")])
                    writes |= dict.fromkeys([x.buffer for x in s.spans("out", "inout")])
                case Host():
                    reads |= dict.fromkeys([s.when] if s.when is not None else [])
                    reads |= dict.fromkeys([x.buffer for x in s.inputs])
                    writes |= dict.fromkeys([x.buffer for x in s.outputs])
                case Product() if s.ahead is not None:
                    reads[s.ahead.buffer] = None
                case While():
                    reads[s.going] = None
                case _:
                    pass
        return list(reads), list(writes)

    def __str__(self) -> str:
        from chainrule.compile.loops.printing import kernel

        return kernel(self)


@final
@dataclass(eq=False, slots=True)
class Loops:
    """A whole program: kernels in the order in which they run."""

    buffers: list[Buffer]
    kernels: list[Kernel]
    symbols: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list[str])

    def __str__(self) -> str:
        from chainrule.compile.loops.printing import program

        return program(self)


def computable(dtype: Dtype) -> bool:
    """Whether loops know numbers of `dtype`: bools, integers, floats up to 8 bytes. float16 and
    bfloat16 they only move and cast."""
    return dtype.kind in "biufV" and dtype.itemsize <= 8


def statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement, also those within others."""
    for s in body:
        yield s
        if isinstance(s, For | Product):
            yield from statements(s.body)
        elif isinstance(s, While):
            for k in s.kernels:
                yield from statements(k.body)


def loop_of(k: Kernel) -> While | None:
    """The loop of unknown length that a kernel is, if it is one."""
    return k.body[0] if k.body and isinstance(k.body[0], While) else None


def single(kernels: Iterable[Kernel]) -> Iterator[Kernel]:
    """The kernels, and in the place of a loop of unknown length those that are in it."""
    for k in kernels:
        loop = loop_of(k)
        if loop is None:
            yield k
        else:
            yield from single(loop.kernels)


def exprs_of(s: Stmt) -> list[Expr]:
    """The expressions that a statement itself holds, also those in its offsets."""
    match s:
        case Let() | Into():
            found = [s.value]
        case Store():
            found = [s.value, *_in_offset(s.at)]
        case Product():
            found = [s.left, s.right]
        case _:
            found = []
    return found


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
        match x.kind:
            case "fn":
                stack += x.of[1:]
            case "load":
                stack += _in_offset(x.of[1])
                if x.of[2] is not None:
                    stack.append(x.of[2])
            case "index":
                stack += _in_offset(x.of)
            case _:
                pass


def _in_offset(at: Affine) -> list[Expr]:
    return [v for v, _ in at.terms if isinstance(v, Expr)]


def loads_of(s: Stmt) -> Iterator[Buffer]:
    """The buffers that a statement's own expressions read."""
    for e in exprs_of(s):
        for x in within(e):
            if x.kind == "load":
                yield x.of[0]


def strides_of(shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Strides, in elements, of a contiguous array."""
    out: list[Extent] = []
    step: Extent = 1
    for n in reversed(shape):
        out.append(step)
        step = n * step
    return tuple(reversed(out))
