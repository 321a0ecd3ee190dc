"""Indices in lanes as integers of 32 bits, where these have room: a register has twice as many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chainrule.compile.graph.sizes import typical
from chainrule.compile.llvm.lanes import Lanes
from chainrule.compile.llvm.memory_access import I32, is_vector, offsets
from chainrule.compile.llvm.numbers import Value
from chainrule.compile.loops.expressions import Affine, Expr, Var, counter_bits

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter

_NARROW = 1 << 30
"""Below it an index, and one counter of a size that is not known, have room in 32 bits."""


def narrow(e: Emitter, xs: Sequence[Expr]) -> list[Value]:
    """Indices in every lane as integers of 32 bits, of which a vector has twice as many. None where
    one may need more, or where none differs from lane to lane."""
    lanes = e.lanes
    if lanes is None or not any(x.kind == "index" and is_vector(e, x.of) for x in xs):
        return []
    if not all(map(_is_narrow, xs)):
        return []
    return [_narrowed(e, x, lanes) for x in xs]


def _narrowed(e: Emitter, x: Expr, lanes: Lanes) -> Value:
    if _is_widened(x):
        return e.derived.splat(e.value(x.of[1]), lanes.width)
    return offsets(e, x.of if x.kind == "index" else Affine(x.of), lanes, I32)


def _is_narrow(x: Expr) -> bool:
    """Whether it is an index with room in 32 bits."""
    if x.kind == "lit":
        return x.dtype.kind == "i" and abs(x.of) < _NARROW
    if _is_widened(x):
        return True
    most = _most(x.of) if x.kind == "index" else None
    return most is not None and most < _NARROW


def _most(at: Affine) -> int | None:
    """What an offset is at most; None if that is not known. A counter of a size that is not known
    is taken for what it typically is, if it is not multiplied."""
    if not isinstance(at.const, int):
        return None
    total = abs(at.const)
    for v, c in at.terms:
        bits = counter_bits(v) if isinstance(v, Expr) else None
        each = typical(v.extent) if isinstance(v, Var) else _most(bits[0]) if bits else None
        if not isinstance(c, int) or each is None:
            return None
        if isinstance(v, Var) and not isinstance(v.extent, int) and abs(c) != 1:
            return None
        total += abs(c) * each
    return total


def _is_widened(x: Expr) -> bool:
    """Whether it is an integer of 32 bits that was made longer."""
    return x.kind == "fn" and x.of[0] == "cast" and x.of[1].dtype == np.int32
