"""What a statement reads and writes: stated once, for all that ask where kernels touch memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.expressions import Affine, Buffer, within
from chainrule.compile.loops.statements import (
    Gemm,
    Host,
    Matrix,
    Routine,
    Stmt,
    Store,
    Strided,
    While,
    exprs_of,
    statements,
)


@final
class Access(NamedTuple):
    """Elements of `buffer` from `at` on that are read, or written, at once: `block` has the size
    and the stride of each of their axes. What is `guarded` is read only where a condition holds."""

    buffer: Buffer
    at: Affine
    writes: bool = False
    block: tuple[tuple[Extent, Extent], ...] = ()
    guarded: bool = False


def accesses(body: Sequence[Stmt]) -> Iterator[Access]:
    """Those of all statements, in order: of each what it reads, then what it writes."""
    for s in statements(body):
        yield from accesses_of(s)


def accesses_of(s: Stmt) -> Iterator[Access]:
    """Those of a statement itself, not of others within it."""
    for e in exprs_of(s):
        for x in within(e):
            if x.kind == "load":
                buffer, at, when = x.of
                yield Access(buffer, at, guarded=when is not None)
    yield from _besides(s)


def writes_of(s: Stmt) -> list[Buffer]:
    """The buffers that a statement itself writes."""
    return [x.buffer for x in _besides(s) if x.writes]


def _besides(s: Stmt) -> Iterator[Access]:
    """The accesses of a statement other than those of its expressions."""
    match s:
        case Store():
            if s.add:
                yield Access(s.buffer, s.at)
            yield Access(s.buffer, s.at, writes=True)
        case Gemm():
            yield _matrix(s.left, s.m, s.k)
            yield _matrix(s.right, s.k, s.n)
            if s.add:
                yield _matrix(s.out, s.m, s.n)
            yield _matrix(s.out, s.m, s.n, writes=True)
        case Routine():
            for writes, uses in ((False, ("in", "inout")), (True, ("out", "inout"))):
                for x in s.spans(*uses):
                    yield Access(x.buffer, x.at, writes, ((x.size, 1),))
        case Host():
            if s.when is not None:
                yield Access(s.when, Affine())
            yield from [_strided_access(x, writes=False) for x in s.inputs]
            yield from [_strided_access(x, writes=True) for x in s.outputs]
        case While():
            yield Access(s.going, Affine())
        case _:
            pass


def _matrix(x: Matrix, rows: Extent, cols: Extent, *, writes: bool = False) -> Access:
    return Access(x.buffer, x.at, writes, ((rows, x.row), (cols, x.col)))


def _strided_access(x: Strided, *, writes: bool) -> Access:
    return Access(x.buffer, Affine(x.offset), writes, tuple(zip(x.shape, x.strides, strict=True)))
