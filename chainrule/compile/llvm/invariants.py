"""What is the same in each iteration of a loop, and is read from memory: computed before the loop.

LLVM would find it only with passes that cost more than all else of the compilation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.compile.loops.accesses import writes_of
from chainrule.compile.loops.expressions import Buffer, Expr, Var, operands_of, within
from chainrule.compile.loops.statements import (
    For,
    Into,
    Let,
    Product,
    Stmt,
    Store,
    exprs_of,
    statements,
)  # fmt: skip

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter


def compute_invariants(e: Emitter, s: For | Product) -> None:
    """Compute what the iterations of `s` read and none of them changes: that is known from here on.
    What they would not read if there were none is only read where it is there in any case."""
    inner = list(statements([s]))
    written = {b for x in inner for b in writes_of(x)}
    bound: set[Any] = set()
    for x in inner:
        match x:
            case For():
                bound.add(x.var)
            case Product():
                bound |= {x.i, x.j, *x.k, x.acc}
            case Let() | Into():
                bound.add(x.local)
            case _:
                pass
    seen: set[Expr] = set()
    for value, runs in _values([s], True):
        for x in _invariant(e, value, bound, written, seen):
            if runs or all(map(_is_there, within(x))):
                e.value(x)


def indices_constant_along(e: Emitter, s: Product, ks: Sequence[Var]) -> list[Expr]:
    """The indices that `s.left` takes from memory and that are the same for all values of `ks`.
    Where there are no such values they are read nevertheless, so they must be there."""
    written = {b for x in statements(s.body) for b in writes_of(x)}
    sizes = {name for v in ks if not isinstance(v.extent, int) for name in v.extent.symbols}
    found = _invariant(e, s.left, {*ks, s.j, s.acc}, written, set())
    whole = [x for x in found if x.dtype.kind in "iu"]
    return [x for x in whole if all(_is_there_without(y, sizes) for y in within(x))]


def _is_there_without(x: Expr, symbols: set[str]) -> bool:
    """Whether it can be read whatever these sizes are."""
    if x.kind != "load":
        return True
    buffer, _, when = x.of
    size = buffer.size
    return when is None and (isinstance(size, int) or symbols.isdisjoint(size.symbols))


def _values(body: Sequence[Stmt], runs: bool) -> Iterator[tuple[Expr, bool]]:
    """The expressions of `body`, and whether they are computed at least once if `body` is."""
    for s in body:
        match s:
            case For():
                n = s.var.extent
                yield from _values(s.body, runs and s.upto is None and isinstance(n, int) and n > 0)
            case Product():
                sizes = [x.extent for x in (s.i, s.j, *s.k)]
                some = runs and all(isinstance(n, int) and n > 0 for n in sizes)
                yield from [(x, some) for x in exprs_of(s)]
                yield from _values(s.body, some)
            case Let() | Into() | Store():
                yield from [(x, runs) for x in exprs_of(s)]
            case _:
                pass


def _invariant(
    e: Emitter, x: Expr, bound: set[Any], written: set[Buffer], seen: set[Expr]
) -> Iterator[Expr]:
    """The largest parts of `x` that read memory, depend on nothing in `bound`, and on nothing that
    is written."""
    if x in seen:
        return
    seen.add(x)
    reads = e.known.reads(x)
    if not reads:
        return
    if bound.isdisjoint(x.free) and written.isdisjoint(reads):
        yield x
        return
    for y in operands_of(x):
        yield from _invariant(e, y, bound, written, seen)


def _is_there(x: Expr) -> bool:
    """Whether it can be computed whatever the sizes are."""
    if x.kind != "load":
        return True
    buffer, at, when = x.of
    size = buffer.size
    known = not at.terms and isinstance(at.const, int) and isinstance(size, int)
    return when is None and known and 0 <= at.const < size
