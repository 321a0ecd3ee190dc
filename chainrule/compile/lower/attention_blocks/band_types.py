"""What a band is made of: a kernel of rows, calls of BLAS around it, and where rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.accesses import accesses
from chainrule.compile.loops.expressions import Affine, Buffer, Var
from chainrule.compile.loops.statements import For, Gemm, Kernel, Stmt


@final
@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """A kernel of rows: `body` for each value of `row`."""

    kernel: Kernel
    leads: tuple[Var, ...]
    row: Var
    body: tuple[Stmt, ...]


@final
@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A kernel that calls BLAS; `axis` runs along the rows: m or k of `gemm`.

    The product is turned so that what it shares with the kernel of rows is its left argument, or
    its result.
    """

    kernel: Kernel
    leads: tuple[Var, ...]
    gemm: Gemm
    axis: str
    transposed: bool
    makes: bool = False
    """Whether it computes what a kernel of rows reads."""


@final
@dataclass(frozen=True, slots=True)
class RowAddress:
    """Where a row of a buffer is: `leads` and `row` are coefficients of counters; it is `width`
    elements long."""

    leads: tuple[Extent, ...]
    row: int
    width: int


@final
@dataclass(frozen=True, slots=True)
class Band:
    """The parts in their order, and where the rows are of what only they use."""

    members: tuple[Rows | Call, ...]
    addresses: Mapping[Buffer, RowAddress]

    @property
    def bodies(self) -> list[Rows]:
        """Its kernels of rows."""
        return [p for p in self.members if isinstance(p, Rows)]

    @property
    def calls(self) -> list[Call]:
        """Its calls of BLAS."""
        return [p for p in self.members if isinstance(p, Call)]

    @property
    def count(self) -> int:
        """How many rows there are."""
        extent = self.bodies[0].row.extent
        assert isinstance(extent, int)
        return extent


@final
class Uses:
    """Which buffers kernels read and write, found once for each."""

    def __init__(self) -> None:
        self._known: dict[Kernel, tuple[list[Buffer], list[Buffer]]] = {}

    def of(self, k: Kernel) -> tuple[list[Buffer], list[Buffer]]:
        """As `Kernel.buffers`."""
        if k not in self._known:
            self._known[k] = k.buffers()
        return self._known[k]

    def all(self, k: Kernel) -> set[Buffer]:
        """Both."""
        reads, writes = self.of(k)
        return {*reads, *writes}


def split_nest(k: Kernel) -> tuple[list[Var], tuple[Stmt, ...]]:
    """The counters of the independent loops around what a kernel does, and that."""
    counters, body = list[Var](), k.body
    while len(body) == 1 and isinstance(s := body[0], For) and s.mode == "serial" and s.independent:
        counters.append(s.var)
        body = s.body
    return counters, body


def call_of(k: Kernel) -> tuple[tuple[Var, ...], Gemm] | None:
    """The counters of the loops around a call of BLAS, and that, if this is what a kernel is."""
    counters, body = split_nest(k)
    if len(body) == 1 and isinstance(body[0], Gemm):
        return tuple(counters), body[0]
    return None


_OTHER = {"m": "n", "n": "m"}


def transpose_gemm(s: Gemm) -> Gemm:
    """out.T = right.T @ left.T."""
    left, right, out = (replace(x, row=x.col, col=x.row) for x in (s.right, s.left, s.out))
    upto = s.upto and (_OTHER.get(s.upto[0], s.upto[0]), s.upto[1])
    return replace(s, m=s.n, n=s.m, left=left, right=right, out=out, upto=upto)


def offsets(body: Sequence[Stmt], b: Buffer) -> list[Affine]:
    """Where statements read and write `b`."""
    return [x.at for x in accesses(body) if x.buffer is b]
