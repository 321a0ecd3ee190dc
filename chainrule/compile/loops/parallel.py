"""Kernels that are split over cores: parallel loops, one in the other, are as one."""

from __future__ import annotations

from chainrule.compile.graph.sizes import Extent, product
from chainrule.compile.loops.duration import nanoseconds
from chainrule.compile.loops.expressions import Var
from chainrule.compile.loops.statements import For, Kernel, Stmt

LEAST = 2_000.0
"""Nanoseconds of work in a block or a chunk, at least."""


def is_parallel(k: Kernel) -> bool:
    """Whether it is split over cores."""
    (first, *_) = k.body
    return isinstance(first, For) and first.mode == "parallel"


def nest(k: Kernel) -> tuple[list[Var], tuple[Stmt, ...]]:
    """The counters of a kernel's parallel loops, which are as one, and what is in them."""
    counters, body = list[Var](), k.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].mode == "parallel":
        counters.append(body[0].var)
        body = body[0].body
    return counters, body


def iterations(k: Kernel) -> Extent:
    """How many iterations a parallel kernel has."""
    counters, _ = nest(k)
    return product([v.extent for v in counters])


def least(k: Kernel) -> int:
    """How many iterations of a parallel kernel are worth being taken at a time."""
    _, body = nest(k)
    return max(1, round(LEAST / max(nanoseconds(body), 1e-3)))
