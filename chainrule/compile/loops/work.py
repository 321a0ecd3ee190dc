"""How much a kernel has to do: the bytes that it must move, and its arithmetic.

Counted on the loops. An address counts once for each kernel that reads it and once for each that
writes it, however often. So this is the least that a cache has to move. What a kernel has written
itself it need not read. A floating-point function counts as one operation, `exp` and its like as
many as `mathlib.counting` says. It counts where its value is first needed: not again for each
iteration of a loop that it does not depend on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.loops.accesses import Access, accesses_of
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var, within
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Host,
    Into,
    Kernel,
    Let,
    Product,
    Stmt,
    Store,
    While,
    exprs_of,
    statements,
)
from chainrule.compile.mathlib.arithmetic_cost import operations

Symbols = Mapping[str, int]
_FREE = {"cast", "where", "bits"}
"""Functions that move numbers, and compute none."""


@final
@dataclass(frozen=True, slots=True)
class Work:
    """Bytes read and written, operations on floats of up to four bytes, and on wider ones."""

    read: int
    written: int
    singles: int
    doubles: int

    @property
    def bytes(self) -> int:
        """All that is moved."""
        return self.read + self.written

    @property
    def flops(self) -> int:
        """All operations."""
        return self.singles + self.doubles


def work(kernel: Kernel, symbols: Symbols) -> Work:
    """The work of one run of `kernel` where the symbols have these values."""
    flops = _flops(kernel.body, symbols)
    doubles = sum([n for size, n in flops if size > 4])
    read, written = _bytes_moved(kernel.body, symbols)
    return Work(read, written, sum([n for _, n in flops]) - doubles, doubles)


# --- bytes ---------------------------------------------------------------------------------------


def _bytes_moved(body: Sequence[Stmt], symbols: Symbols) -> tuple[int, int]:
    """Bytes read and written at different places: those that look alike but for their counters'
    names are one."""
    read: dict[Buffer, dict[Any, int]] = {}
    written: dict[Buffer, dict[Any, int]] = {}
    mostly = [s for s in statements(body) if not isinstance(s, Host) or s.when is None]
    for x in [x for s in mostly for x in accesses_of(s)]:
        key, count = _elements(x, symbols)
        if x.writes:
            written.setdefault(x.buffer, {})[key] = count
        elif key not in written.get(x.buffer, {}):
            read.setdefault(x.buffer, {})[key] = count
    return _bytes(read, symbols), _bytes(written, symbols)


def _bytes(found: Mapping[Buffer, Mapping[Any, int]], symbols: Symbols) -> int:
    return sum(
        [
            min(sum(counts.values()), size_at(b.size, symbols)) * b.dtype.itemsize
            for b, counts in found.items()
        ]
    )


def _elements(x: Access, symbols: Symbols) -> tuple[Any, int]:
    """What tells a place from others in a buffer, and how many elements are there."""
    block = tuple([(size_at(n, symbols), c) for n, c in x.block])
    terms = [
        (c, size_at(v.extent, symbols)) if isinstance(v, Var) else (c, v) for v, c in x.at.terms
    ]
    key = (x.at.const, frozenset(terms), block)
    return key, _places(x.at, symbols) * math.prod([n for n, _ in block])


def _places(at: Affine, symbols: Symbols) -> int:
    """How many values an offset takes, if all are different."""
    counters: set[Var | Local] = set()
    for v, _ in at.terms:
        counters |= {v} if isinstance(v, Var) else v.free
    return math.prod([size_at(v.extent, symbols) for v in counters if isinstance(v, Var)])


# --- arithmetic ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop that is gone through: how often, and what changes from iteration to iteration."""

    iterations: int
    changes: frozenset[Var | Local]


def _flops(body: Sequence[Stmt], symbols: Symbols) -> list[tuple[int, int]]:
    """(bytes of the number, operations), for each function that is computed."""
    seen: set[Expr] = set()
    return list(_count(body, [], seen, symbols))


def _count(
    body: Sequence[Stmt], loops: list[_Loop], seen: set[Expr], symbols: Symbols
) -> Iterator[tuple[int, int]]:
    """For each statement: how many operations an element takes, and how often it runs."""
    for s in body:
        inner = loops
        match s:
            case For():
                iterations = (
                    size_at(s.var.extent, symbols) if s.upto is None else _mean(s.upto, symbols)
                )
                inner = [*loops, _Loop(iterations, frozenset([s.var]) | _set_in(s.body))]
                yield from _count(s.body, inner, seen, symbols)
            case Product():
                iterations = size_at(s.i.extent, symbols) * size_at(s.j.extent, symbols)
                depth = math.prod([size_at(k.extent, symbols) for k in s.k])
                yield s.acc.dtype.itemsize, 2 * iterations * depth * _iterations(loops)
                changes = frozenset([s.i, s.j, s.acc]) | _set_in(s.body)
                inner = [*loops, _Loop(iterations, changes)]
                yield from _count(s.body, inner, seen, symbols)
            case Gemm():
                m, n, k = [
                    _mean(x, symbols) if isinstance(x, Affine) else size_at(x, symbols)
                    for x in s.sizes
                ]
                yield s.out.buffer.dtype.itemsize, 2 * m * n * k * _iterations(loops)
            case While():  # how many iterations there are is not known: one
                for k in s.kernels:
                    yield from _count(k.body, loops, seen, symbols)
            case Into():
                yield from _count_fold(s.value.dtype, loops)
            case Store() if s.add:
                yield from _count_fold(s.buffer.dtype, loops)
            case _:
                pass
        for e in exprs_of(s):
            yield from _functions(e, inner, seen)


def _mean(at: Affine, symbols: Symbols) -> int:
    """What an offset is on average, over all iterations of the loops that it depends on."""
    twice = [c * (v.extent - 1) for v, c in at.terms if isinstance(v, Var)]
    return size_at(at.const, symbols) + sum([size_at(n, symbols) for n in twice]) // 2


def _count_fold(dtype: Any, loops: Sequence[_Loop]) -> Iterator[tuple[int, int]]:
    if dtype.kind == "f":
        yield dtype.itemsize, _iterations(loops)


def _functions(e: Expr, loops: Sequence[_Loop], seen: set[Expr]) -> Iterator[tuple[int, int]]:
    for x in within(e):
        if x in seen:
            continue
        seen.add(x)
        if x.kind == "fn" and x.of[0] not in _FREE and x.of[1].dtype.kind == "f":
            dtype = x.of[1].dtype
            yield dtype.itemsize, operations(x.of[0], dtype) * _iterations(loops, x.free)


def _iterations(loops: Sequence[_Loop], free: frozenset[Var | Local] | None = None) -> int:
    """How often something is computed in these loops: those count that it depends on, and all that
    these are in."""
    depths = [n for n, x in enumerate(loops, 1) if free is None or not free.isdisjoint(x.changes)]
    return math.prod([x.iterations for x in loops[: max(depths, default=0)]])


def _set_in(body: Sequence[Stmt]) -> frozenset[Var | Local]:
    """The numbers that are set anew in each iteration of a loop."""
    own = [s.local for s in statements(body) if isinstance(s, Let | Into)]
    return frozenset([*own, *[s.acc for s in statements(body) if isinstance(s, Product)]])
