"""What runs on several cores at once: turns of a parallel loop have nothing to do with each other.

Where two turns reach is counted out, element by element, and compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.graph.sizes import bound
from chainrule.compile.loops.accesses import Access, accesses
from chainrule.compile.loops.check.accesses import refuse
from chainrule.compile.loops.expressions import Expr, Var
from chainrule.compile.loops.statements import (
    For,
    Kernel,
    Loops,
    Stmt,
    counters_of,
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
        counters = [v for s in statements(body) for v in counters_of(s)]
        self._sizes = {v: bound(v.extent, symbols) for v in counters}
        self._accesses = [x for x in accesses(body) if not x.guarded]

    def clash(self, v: Var, turn: int) -> str | None:
        """A buffer in which turn 0 writes what another turn touches."""
        for b in {x.buffer for x in self._accesses if x.writes}:
            own = [x for x in self._accesses if x.buffer is b]
            touched = np.concatenate([self._elements(x, v, 0) for x in own if x.writes])
            if any(np.isin(self._elements(x, v, turn), touched).any() for x in own):
                return b.name
        return None

    def _elements(self, access: Access, v: Var, turn: int) -> Any:
        """The elements of an access in a turn of `v`: none where data decides, or they are many."""
        none, at = np.array([], np.int64), access.at
        if any(isinstance(x, Expr) for x, _ in at.terms):
            return none
        steps = [(x, bound(c, self._symbols)) for x, c in at.terms if isinstance(x, Var)]
        axes = [(self._sizes[x], c) for x, c in steps if x in self._sizes]
        axes += [(bound(n, self._symbols), bound(c, self._symbols)) for n, c in access.block]
        if math.prod([n for n, _ in axes]) > MOST:
            return none
        total = np.array([bound(at.const, self._symbols) + turn * _factor(steps, v)])
        for n, c in axes:
            total = np.add.outer(total, c * np.arange(n)).reshape(-1)
        return total


def _factor(steps: Sequence[tuple[Var, int]], v: Var) -> int:
    """What `v` is multiplied by."""
    return sum([c for x, c in steps if x is v])
