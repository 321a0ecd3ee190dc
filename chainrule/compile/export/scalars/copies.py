"""Kernels that move numbers: between arrays, from what ints choose, one number everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Exprs, Var
from chainrule.compile.loops.statements import For, Kernel, Stmt, Store
from chainrule.compile.scalars.gathers import Choice

Places = NDArray[np.int64]
_INT = np.dtype(np.int64)


def whole(n: int) -> Places:
    """All places of what has n."""
    return np.arange(n, dtype=np.int64)


def is_row(places: Places) -> bool:
    """Whether places follow each other."""
    return len(places) > 0 and np.array_equal(places, places[0] + whole(len(places)))


def copied(to: Buffer, places: Places, source: Buffer, sources: Places) -> Kernel:
    """The kernel that copies numbers of `source` to `places` of another one."""
    make = Exprs()
    n = len(places)
    i = Var("i", n)

    def element(at: Affine) -> Stmt:
        value = make.load(source, _place(make, source.name, sources, at))
        return Store(to, _place(make, to.name, places, at), value)

    return Kernel(f"copy_{to.name}", (_loop(i, n, element),))


def filled(to: Buffer, places: Places, x: float) -> Kernel:
    """The kernel that writes one number to `places`."""
    make = Exprs()
    i = Var("i", len(places))
    number = make.lit(x, to.dtype)
    body = _loop(i, len(places), lambda at: Store(to, _place(make, to.name, places, at), number))
    return Kernel(f"fill_{to.name}", (body,), (f"fill {to.dtype}[{len(places)}]",))


def chosen_kernel(table: Buffer, at: Any, choice: Choice, chosen: Buffer) -> Kernel:
    """The kernel that writes to a table what ints choose for it."""
    make = Exprs()
    n = len(at)
    i = Var("i", n)
    flat = _table("entries", choice.flat)

    def element(k: Affine) -> Stmt:
        index = make.load(chosen, _place(make, "index", choice.index, k))
        first = _place(make, "first", choice.starts, k)
        return Store(table, _place(make, "at", at, k), make.load(flat, first + index))

    return Kernel(f"choose_{table.name}", (_loop(i, n, element),), ("chosen int64[]",))


def _loop(i: Var, n: int, element: Callable[[Affine], Stmt]) -> Stmt:
    if n == 1:
        return element(Affine())
    return For(i, (element(Affine.of(i)),))


def _place(make: Exprs, name: str, places: Sequence[int] | Places, at: Affine) -> Affine:
    """Where the one of `places` lies that is at `at` among them."""
    found = np.asarray(places, np.int64)
    step = int(found[1] - found[0]) if len(found) > 1 else 0
    if np.array_equal(found, found[0] + step * whole(len(found))):
        return at * step + int(found[0])
    e: Expr = make.load(_table(f"{name}_places", found), at)
    return Affine.of(e)


def _table(name: str, values: Any) -> Buffer:
    values = np.ascontiguousarray(values, _INT)
    return Buffer(name, _INT, values.shape, "constant", values)
