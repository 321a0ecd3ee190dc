"""About how long statements take: only the order of magnitude matters, and finding it quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.loops import statements as loops
from chainrule.compile.loops.expressions import Var, within
from chainrule.compile.loops.functions import MATHEMATICS

_PER_BYTE = 50
_PER_MATH = 200
_PER_MULTIPLICATION = 5
"""Picoseconds on one core with AVX-512 for each byte of a number that is computed, of one for which
a function like `exp` is, and in products of one that is multiplied."""


def nanoseconds(body: Sequence[loops.Stmt]) -> float:
    """About how long one core takes for `body`. Sizes that are not known are typical ones."""
    return _all(body, typical) / 1000


def picoseconds(kernels: Sequence[loops.Kernel]) -> Extent | None:
    """About how long one core takes for a program, as a polynomial of its sizes; None if it has a
    loop of unknown length, or calls functions of others."""
    kinds = loops.While | loops.Host | loops.Routine
    if any(isinstance(s, kinds) for k in kernels for s in loops.statements(k.body)):
        return None
    return _all([s for k in kernels for s in k.body], lambda n: n)


def _all(body: Sequence[loops.Stmt], size: Callable[[Extent], Any]) -> Any:
    return sum([_picoseconds(s, size) for s in body])


def _picoseconds(s: loops.Stmt, size: Callable[[Extent], Any]) -> Any:
    """About how long one statement takes, its sizes being what `size` says of them."""
    match s:
        case loops.For():
            return size(s.var.extent) * _all(s.body, size)
        case loops.Product():
            depth = size(product([k.extent for k in s.k]))
            each = depth * (s.acc.dtype.itemsize * _PER_MULTIPLICATION) + _all(s.body, size)
            return size(s.i.extent) * size(s.j.extent) * each
        case loops.Gemm():
            count = size(s.m) * size(s.n) * size(s.k)
            return count * (s.out.buffer.dtype.itemsize * _PER_MULTIPLICATION)
        case loops.Let() | loops.Into() | loops.Store():
            math = len(MATHEMATICS & {x.of[0] for x in within(s.value) if x.kind == "fn"})
            return s.value.dtype.itemsize * (_PER_BYTE + math * _PER_MATH)
        case loops.Host() | loops.Routine():
            return 0
        case loops.While():
            return sum([_all(k.body, size) for k in s.kernels])


# --- kernels that are split over cores: parallel loops, one in the other, are as one --------------

LEAST = 2_000.0
"""Nanoseconds of work in a block or a chunk, at least."""


def is_parallel(k: loops.Kernel) -> bool:
    """Whether it is split over cores."""
    (first, *_) = k.body
    return isinstance(first, loops.For) and first.mode == "parallel"


def nest(k: loops.Kernel) -> tuple[list[Var], tuple[loops.Stmt, ...]]:
    """The counters of a kernel's parallel loops, which are as one, and what is in them."""
    counters, body = list[Var](), k.body
    while len(body) == 1 and isinstance(body[0], loops.For) and body[0].mode == "parallel":
        counters.append(body[0].var)
        body = body[0].body
    return counters, body


def iterations(k: loops.Kernel) -> Extent:
    """How many iterations a parallel kernel has."""
    counters, _ = nest(k)
    return product([v.extent for v in counters])


def least(k: loops.Kernel) -> int:
    """How many iterations of a parallel kernel are worth being taken at a time."""
    _, body = nest(k)
    return max(1, round(LEAST / max(nanoseconds(body), 1e-3)))
