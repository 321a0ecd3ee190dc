"""What runs on several cores at once: turns of a parallel loop have nothing to do with each other.

Where two turns reach is counted out, element by element, and compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, final

import numpy as np

from chainrule.compile.graph.sizes import Extent, bound
from chainrule.compile.loops.check.accesses import refuse
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Var, within
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Kernel,
    Loops,
    Product,
    Routine,
    Stmt,
    Store,
    exprs_of,
    single,
    statements,
)

MOST = 1 << 16
"""So many elements of a place are counted out at most; a larger one is not looked at."""


def side_by_side(program: Loops, symbols: Mapping[str, int]) -> None:
    """Refuse parallel loops that share a kernel with others, or turns that meet in memory."""
    for k in single(program.kernels):
        loops = [s for s in statements(k.body) if isinstance(s, For) and s.mode == "parallel"]
        if loops:
            _kernel(k, loops, symbols)


def _kernel(k: Kernel, loops: Sequence[For], symbols: Mapping[str, int]) -> None:
    body = k.body
    for loop in loops:
        if body != (loop,):
            refuse(k, loop, "a parallel loop is not all that its kernel, or loop, is")
        body = loop.body
    turns = _Turns(body, symbols)
    for loop in loops:
        n = bound(loop.var.extent, symbols)
        for other in {1, n - 1} if n > 1 else ():
            clash = turns.clash(loop.var, other)
            if clash is not None:
                refuse(k, loop, f"turns 0 and {other} of {loop.var} meet in {clash}")


@final
class _Turns:
    """Where turns of a nest of parallel loops reach; all but one of the loops are in turn 0."""

    def __init__(self, body: Sequence[Stmt], symbols: Mapping[str, int]) -> None:
        self._symbols = symbols
        self._sizes = {v: bound(v.extent, symbols) for v in _counters(body)}
        self._writes = list(_writes(body))
        self._reads = list(_reads(body))

    def clash(self, v: Var, turn: int) -> str | None:
        """A buffer in which turn 0 writes what another turn touches."""
        for b in {b for b, _, _ in self._writes}:
            mine = [self._elements(at, block, v, 0) for x, at, block in self._writes if x is b]
            touched = np.concatenate(mine)
            for other, at, block in chain(self._writes, self._reads):
                if other is b and np.isin(self._elements(at, block, v, turn), touched).any():
                    return b.name
        return None

    def _elements(self, at: Affine, block: _Block, v: Var, turn: int) -> Any:
        """The elements of a place in a turn of `v`: none where data decides, or they are many."""
        none = np.array([], np.int64)
        if any(isinstance(x, Expr) for x, _ in at.terms):
            return none
        steps = [(x, bound(c, self._symbols)) for x, c in at.terms if isinstance(x, Var)]
        axes = [(self._sizes[x], c) for x, c in steps if x in self._sizes]
        axes += [(bound(n, self._symbols), bound(c, self._symbols)) for n, c in block]
        if math.prod([n for n, _ in axes]) > MOST:
            return none
        total = np.array([bound(at.const, self._symbols) + turn * _factor(steps, v)])
        for n, c in axes:
            total = np.add.outer(total, c * np.arange(n)).reshape(-1)
        return total


def _factor(steps: Sequence[tuple[Var, int]], v: Var) -> int:
    """What `v` is multiplied by."""
    return sum([c for x, c in steps if x is v])


_Block = tuple[tuple[Extent, Extent], ...]
"""(size, stride) of the axes of what is read or written at once."""
_Place = tuple[Buffer, Affine, _Block]


def _counters(body: Sequence[Stmt]) -> Iterator[Var]:
    for s in statements(body):
        if isinstance(s, For):
            yield s.var
        elif isinstance(s, Product):
            yield from (s.i, s.j, *s.k)


def _writes(body: Sequence[Stmt]) -> Iterator[_Place]:
    for s in statements(body):
        if isinstance(s, Store):
            yield s.buffer, s.at, ()
        elif isinstance(s, Gemm):
            yield s.out.buffer, s.out.at, ((s.m, s.out.row), (s.n, s.out.col))
        elif isinstance(s, Routine):
            yield from [(x.buffer, x.at, ((x.size, 1),)) for x in s.spans("out", "inout")]


def _reads(body: Sequence[Stmt]) -> Iterator[_Place]:
    """All but what a condition guards."""
    for s in statements(body):
        for x in [x for e in exprs_of(s) for x in within(e)]:
            if x.kind == "load" and x.of[2] is None:
                yield x.of[0], x.of[1], ()
        if isinstance(s, Routine):
            yield from [(x.buffer, x.at, ((x.size, 1),)) for x in s.spans("in", "inout")]
        if isinstance(s, Gemm):
            yield s.left.buffer, s.left.at, ((s.m, s.left.row), (s.k, s.left.col))
            yield s.right.buffer, s.right.at, ((s.k, s.right.row), (s.n, s.right.col))
