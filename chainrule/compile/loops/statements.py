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

Expressions and offsets are in `expressions.py`. Everything is immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.expressions import Affine, Buffer, Dtype, Expr, Local, Var, in_offset

Fold = Literal["add", "mul", "maximum", "minimum", "logical_or", "logical_and"]
Mode = Literal["serial", "lanes", "parallel"]


@final
@dataclass(frozen=True, eq=False, slots=True)
class For:
    """`body` for each value of `var`; with "lanes" in vectors of them, in any order otherwise.

    `upto`, at most the counter's extent, is where the loop ends, if counters further out decide.
    `independent`: who made the loop knows that no iteration touches what another one writes.
    """

    var: Var
    body: tuple[Stmt, ...]
    mode: Mode = "serial"
    upto: Affine | None = None
    independent: bool = False


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
class Prefetch:
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

    `right` is contiguous along j, or does not depend on j. Meanwhile `prefetch` is asked for.
    """

    i: Var
    j: Var
    k: tuple[Var, ...]
    left: Expr
    right: Expr
    acc: Local
    body: tuple[Stmt, ...]
    prefetch: Prefetch | None = None


@final
@dataclass(frozen=True, eq=False, slots=True)
class Matrix:
    """Where BLAS finds a matrix: rows are `row` apart, columns `col`; one of them is 1."""

    buffer: Buffer
    at: Affine
    row: Extent
    col: Extent

    def element(self, row: Affine, col: Affine) -> Affine:
        """Where an element is."""
        return self.at + row * self.row + col * self.col

    def from_element(self, row: Affine, col: Affine) -> Matrix:
        """The matrix from that element on."""
        return replace(self, at=self.element(row, col))


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
    """Memory that a routine reads, writes, or both: so many elements of `buffer` from `at` on."""

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
    """An op in its eager form, on whole arrays: one that has no loops.

    With `when`, one bool, other kernels try it first: it runs only where they did not succeed.
    """

    op: Any
    inputs: tuple[Strided, ...]
    outputs: tuple[Strided, ...]
    when: Buffer | None = None


@final
@dataclass(frozen=True, eq=False, slots=True)
class While:
    """`kernels` in order, as long as `going`, one bool, holds: all that its kernel is."""

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
        from chainrule.compile.loops.accesses import accesses_of

        reads: dict[Buffer, None] = {}
        writes: dict[Buffer, None] = {}
        for s in statements(self.body):
            for x in accesses_of(s):
                (writes if x.writes else reads)[x.buffer] = None
            if isinstance(s, Product) and s.prefetch is not None:
                reads[s.prefetch.buffer] = None
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


def counters_of(s: Stmt) -> tuple[Var, ...]:
    """The counters that a statement itself counts."""
    return (s.var,) if isinstance(s, For) else (s.i, s.j, *s.k) if isinstance(s, Product) else ()


def exprs_of(s: Stmt) -> list[Expr]:
    """The expressions that a statement itself holds, also those in its offsets."""
    match s:
        case Let() | Into():
            return [s.value]
        case Store():
            return [s.value, *in_offset(s.at)]
        case For() if s.upto is not None:
            return in_offset(s.upto)
        case Product():
            return [s.left, s.right]
        case _:
            return []
