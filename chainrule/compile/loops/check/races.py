"""What may run on several cores at once: iterations of an independent loop do not meet.

Where two iterations reach is counted out, element by element, and compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.graph.sizes import size_at
from chainrule.compile.loops.accesses import Access, accesses
from chainrule.compile.loops.check.accesses import refuse
from chainrule.compile.loops.expressions import Expr, Var
from chainrule.compile.loops.statements import For, Kernel, Loops, counters_of, single, statements

MOST = 1 << 16
"""So many elements of a place are counted out at most; a larger one is not looked at."""


def side_by_side(program: Loops, symbols: Mapping[str, int]) -> None:
    """Refuse loops that are called independent and whose iterations meet in memory, and parallel
    ones that are not independent or share a kernel with others."""
    for k in single(program.kernels):
        loops = [s for s in statements(k.body) if isinstance(s, For)]
        body = k.body
        for loop in [s for s in loops if s.mode == "parallel"]:
            if body != (loop,) or not loop.independent:
                refuse(k, loop, "a parallel loop is not independent, or not all of its kernel")
            body = loop.body
        for loop in [s for s in loops if s.independent]:
            _apart(k, loop, symbols)


def _apart(k: Kernel, loop: For, symbols: Mapping[str, int]) -> None:
    reach, n = _IterationReach(loop, symbols), size_at(loop.var.extent, symbols)
    for other in {1, n - 1} if n > 1 else ():
        clash = reach.clash(loop.var, other)
        if clash is not None:
            refuse(k, loop, f"turns 0 and {other} of {loop.var} meet in {clash}")


@final
class _IterationReach:
    """Where iterations of a loop reach; those around it are in iteration 0."""

    def __init__(self, loop: For, symbols: Mapping[str, int]) -> None:
        self._symbols = symbols
        counters = [v for s in statements(loop.body) for v in counters_of(s)]
        self._sizes = {v: size_at(v.extent, symbols) for v in counters}
        self._accesses = [x for x in accesses(loop.body) if not x.guarded]

    def clash(self, v: Var, iteration: int) -> str | None:
        """A buffer in which one of iteration 0 and another one writes what the other touches."""
        for b in {x.buffer for x in self._accesses if x.writes}:
            own = [x for x in self._accesses if x.buffer is b]
            for one, other in ((0, iteration), (iteration, 0)):
                written = np.concatenate([self._elements(x, v, one) for x in own if x.writes])
                if any(np.isin(self._elements(x, v, other), written).any() for x in own):
                    return b.name
        return None

    def _elements(self, access: Access, v: Var, iteration: int) -> Any:
        """The elements of an access in an iteration of `v`: none where data decides, or they are
        many."""
        none, at = np.array([], np.int64), access.at
        if any(isinstance(x, Expr) for x, _ in at.terms):
            return none
        steps = [(x, size_at(c, self._symbols)) for x, c in at.terms if isinstance(x, Var)]
        axes = [(self._sizes[x], c) for x, c in steps if x in self._sizes]
        axes += [(size_at(n, self._symbols), size_at(c, self._symbols)) for n, c in access.block]
        if math.prod([n for n, _ in axes]) > MOST:
            return none
        total = np.array([size_at(at.const, self._symbols) + iteration * _factor(steps, v)])
        for n, c in axes:
            total = np.add.outer(total, c * np.arange(n)).reshape(-1)
        return total


def _factor(steps: Sequence[tuple[Var, int]], v: Var) -> int:
    """What `v` is multiplied by."""
    return sum([c for x, c in steps if x is v])
