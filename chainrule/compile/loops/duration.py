"""About how long statements take: only the order of magnitude matters, and finding it quickly."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.loops.expressions import Var, within
from chainrule.compile.loops.functions import MATHEMATICS
from chainrule.compile.loops.statements import (
    For,
    Gemm,
    Host,
    Into,
    Kernel,
    Let,
    Product,
    Routine,
    Stmt,
    Store,
    While,
)  # fmt: skip

_PER_BYTE = 0.05
_PER_MATH = 0.2
_PER_MULTIPLICATION = 0.005
"""Nanoseconds on one core with AVX-512 for each byte of a number that is computed, of one for which
a function like `exp` is, and in products of one that is multiplied."""


def nanoseconds(body: Sequence[Stmt]) -> float:
    """About how long one core takes for `body`. Sizes that are not known are typical ones."""
    return sum([_nanoseconds(s) for s in body])


def _nanoseconds(s: Stmt) -> float:
    match s:
        case For():
            return typical(s.var.extent) * nanoseconds(s.body)
        case Product():
            depth = typical(product([k.extent for k in s.k]))
            each = depth * s.acc.dtype.itemsize * _PER_MULTIPLICATION + nanoseconds(s.body)
            return typical(s.i.extent) * typical(s.j.extent) * each
        case Gemm():
            count = typical(s.m) * typical(s.n) * typical(s.k)
            return count * s.out.buffer.dtype.itemsize * _PER_MULTIPLICATION
        case Let() | Into() | Store():
            math = len(MATHEMATICS & {x.of[0] for x in within(s.value) if x.kind == "fn"})
            return s.value.dtype.itemsize * (_PER_BYTE + math * _PER_MATH)
        case Host() | Routine():
            return 0
        case While():
            return sum([nanoseconds(k.body) for k in s.kernels])


# --- kernels that are split over cores: parallel loops, one in the other, are as one --------------

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
