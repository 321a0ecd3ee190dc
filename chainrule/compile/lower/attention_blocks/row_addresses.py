"""Where the rows of a band's buffers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.compile.graph.sizes import typical
from chainrule.compile.loops.expressions import Affine, Buffer, Var
from chainrule.compile.loops.statements import Gemm, Kernel, Matrix
from chainrule.compile.lower.attention_blocks.band_types import (
    Band,
    Call,
    RowAddress,
    Rows,
    Uses,
    offsets,
)

WORTH = 1 << 20
"""Bytes of memory that a band must save."""


def fit_band(kernels: Sequence[Kernel], parts: Sequence[Rows | Call], uses: Uses) -> Band | None:
    """The band, if its parts fit together and there is memory that only they use."""
    mine = {p.kernel for p in parts}
    outside = {b for k in kernels if k not in mine for b in uses.all(k)}
    shared: dict[Buffer, RowAddress] = {}
    for b in dict.fromkeys([b for p in parts for b in uses.of(p.kernel)[1]]):
        users = [p for p in parts if b in uses.all(p.kernel)]
        place = _place(users, b)
        if place is not None:
            shared[b] = place
        elif len(users) > 1 and not _only_written(users, b, uses):
            return None
    places = {b: p for b, p in shared.items() if b.role == "scratch" and b not in outside}
    saved = sum([typical(b.size) * b.dtype.itemsize for b in places])
    return Band(tuple(parts), places) if saved >= WORTH else None


def _only_written(parts: Sequence[Rows | Call], b: Buffer, uses: Uses) -> bool:
    """Whether calls of BLAS write parts of `b`, and nobody reads it."""
    return all(b not in uses.of(p.kernel)[0] for p in parts)


def _place(parts: Sequence[Rows | Call], b: Buffer) -> RowAddress | None:
    """Where the rows of `b` are, if all of the parts agree about that."""
    found: list[RowAddress | None] = []
    for p in parts:
        if isinstance(p, Rows):
            found += [_in_row(at, p.leads, p.row) for at in offsets(p.body, b)]
        else:
            found += [_in_call(p, x, name) for name, x in _matrices(p.gemm) if x.buffer is b]
    if None in found or not found:
        return None
    known = [p for p in found if p is not None]
    if len({(p.leads, p.row) for p in known}) != 1:
        return None
    return replace(known[0], width=max([p.width for p in known]))


def _in_row(at: Affine, leads: Sequence[Var], row: Var) -> RowAddress | None:
    """The place of an offset."""
    outer = tuple([at.coefficient(v) for v in leads])
    step, end = at.coefficient(row), at.const
    for v, c in at.terms:
        if v is row or v in leads:
            continue
        if not isinstance(v, Var) or not isinstance(c, int) or c < 0:
            return None
        end = c * (v.extent - 1) + end
    fits = isinstance(step, int) and isinstance(end, int) and isinstance(at.const, int)
    if not fits or at.const < 0 or end >= step:  # type: ignore[operator]
        return None
    return RowAddress(outer, step, end + 1)  # type: ignore[arg-type]


def _in_call(p: Call, x: Matrix, name: str) -> RowAddress | None:
    """The place of a matrix: the left one or the result, along the rows."""
    rows, cols = {"left": ("m", "k"), "out": ("m", "n"), "right": ("k", "n")}[name]
    if name == "right" or p.axis not in (rows, cols):
        return None
    step, other, count = (
        (x.row, x.col, cols) if p.axis == rows else (x.col, x.row, rows)
    )  # fmt: skip
    column = Var("column", getattr(p.gemm, count))
    row = Var("row", getattr(p.gemm, p.axis))
    at = x.at + Affine(0, ((row, step), (column, other)))
    return _in_row(at, p.leads, row)


def _matrices(s: Gemm) -> list[tuple[str, Matrix]]:
    return [("left", s.left), ("right", s.right), ("out", s.out)]
