"""Bands in which row i has nothing right of column i: causal attention, half of whose work is none.

Of a block of rows only the columns up to its last row are computed. What is left out is 0 there, as
the loops tell: `masked_values` finds what an expression is where the mask is false. Zeros times inf
or NaN are NaN: what is left out of a sum or a product adds 0 times the other factor. That is
computed for whole blocks from rows of the inputs, a small part of the work. (Only where a product
of finite numbers overflows in the triangle is there NaN without blocks, and a number here.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from chainrule.compile.loops.expressions import Affine, Buffer, Local
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Gemm, Into, Let, Stmt, Store
from chainrule.compile.lower.attention_blocks.band_types import Band, Call, Rows, offsets
from chainrule.compile.lower.attention_blocks.masked_values import Known, Masked, ZeroTimes

if TYPE_CHECKING:
    from chainrule.compile.lower.attention_blocks.band_kernel import Writer

_NEUTRAL: dict[str, tuple[float, ...]] = {
    "add": (0.0,), "maximum": (-math.inf,), "minimum": (math.inf,),
}  # fmt: skip


def find_triangle(band: Band) -> Triangle | None:
    """How to leave the upper triangle out; None if there is something in it, or somebody looks."""
    count = band.count
    held: dict[Buffer, Known] = {}
    facts: dict[Local, Known] = {}
    loops: dict[For, list[tuple[Local, Call]]] = {}
    makers = {p.gemm.out.buffer: p for p in band.calls}
    for rows, s in [(p, s) for p in band.bodies for s in p.body]:
        if isinstance(s, Let):
            facts[s.local] = Masked(rows, None, held, facts).of(s.value)
        elif isinstance(s, For) and s.mode == "lanes" and s.var.extent == count:
            spoilt = _left_out(s, rows, band, held, facts)
            if spoilt is None or not all(z.buffer in makers for _, z in spoilt):
                return None
            loops[s] = [(local, makers[z.buffer]) for local, z in spoilt]
        elif isinstance(s, For):
            return None
    fits = all(_fits(p, band, held) for p in band.calls)
    same = all(_one_start(band, b) for b in band.addresses)
    return Triangle(count, loops) if loops and fits and same else None


def _one_start(band: Band, b: Buffer) -> bool:
    """Whether column j is the same element of a row for everybody."""
    places = [x.const for p in band.bodies for x in offsets(p.body, b)]
    matrices = [x for p in band.calls for x in (p.gemm.left, p.gemm.out)]
    return len({*places, *[x.at.const for x in matrices if x.buffer is b]}) == 1


def _left_out(
    loop: For, rows: Rows, band: Band, held: dict[Buffer, Known], facts: dict[Local, Known]
) -> list[tuple[Local, ZeroTimes]] | None:
    """What a loop over columns adds in the triangle; None if it does more there than that, and
    storing what is then in `held`."""
    added: list[tuple[Local, ZeroTimes]] = []
    masked = Masked(rows, loop.var, held, facts)
    for s in loop.body:
        match s:
            case Let():
                facts[s.local] = masked.of(s.value)
            case Into():
                value = masked.of(s.value)
                if isinstance(value, ZeroTimes) and s.fold == "add":
                    added.append((s.local, value))
                elif not isinstance(value, float) or value not in _NEUTRAL.get(s.fold, ()):
                    return None
            case Store():
                value = masked.of(s.value)
                own = s.buffer in band.addresses and s.at.coefficient(loop.var) == 1
                if s.add or not own or not isinstance(value, float):
                    return None
                held[s.buffer] = value
            case _:
                return None
    return added


def _fits(p: Call, band: Band, held: Mapping[Buffer, Known]) -> bool:
    """Whether a call of BLAS uses nothing from the triangle but zeros, or writes what nobody uses
    there."""
    s, count = p.gemm, band.count
    if s.out.buffer in band.addresses:
        return p.axis == "m" and s.n == count and s.out.col == 1
    columns, step = (s.k, s.left.col) if p.axis == "m" else (s.m, s.left.row)
    zero = held.get(s.left.buffer)
    return s.left.buffer in band.addresses and columns == count and step == 1 and zero == 0


@final
@dataclass(frozen=True, slots=True)
class Triangle:
    """What is left out: `loops` over columns end at the last row of a block, of `count` rows. Each
    says to which numbers it adds 0 times what a call of BLAS computes."""

    count: Any
    loops: Mapping[For, Sequence[tuple[Local, Call]]]

    def trimmed(
        self, w: Writer, p: Rows, start: Affine, size: int
    ) -> tuple[list[Stmt], tuple[Stmt, ...]]:
        """In a block of `size` rows from `start` on: what comes before them, and the statements of
        a row."""
        end = start + size
        if end == Affine(self.count):
            return [], p.body
        before, body = list[Stmt](), list[Stmt]()
        for s in p.body:
            if not isinstance(s, For) or s not in self.loops:
                body.append(s)
                continue
            body.append(replace(s, upto=end))
            for local, call in self.loops[s]:
                first, then = self._spoilt(w, p, local, call, end)
                before += first
                body += then
        return before, tuple(body)

    def _spoilt(
        self, w: Writer, p: Rows, local: Local, call: Call, end: Affine
    ) -> tuple[list[Stmt], list[Stmt]]:
        """Once for a block: 0 times the sum of the right factor's columns from `end` on. Then, to
        be added to `local`: a row of the left factor times that."""
        e, s, dtype = w.exprs, call.gemm, call.gemm.out.buffer.dtype
        buffer, at = w.memory(s.k, dtype)
        right = w.renaming(call.leads, Affine(), {}).matrix(s.right)
        k, j, total = w.var("row", s.k), w.var("column", self.count), w.local(dtype)
        last = Affine(self.count - 1) - j
        place = right.element(Affine.of(k), last)
        zero = e.fn("mul", e.lit(0, dtype), e.load(right.buffer, place))
        left_over = Affine(self.count) - end
        sums = For(j, (Into(total, "add", zero),), upto=left_over)
        store = Store(buffer, at + k, e.local(total))
        before = For(k, (Let(total, e.lit(0, dtype)), sums, store), "lanes")
        # the kernel of rows has its own names for the counters further out
        own = {b: Affine.of(a) for a, b in zip(p.leads, w.leads, strict=True)}
        there = {b: Affine.of(a) for a, b in zip(p.leads, call.leads, strict=True)}
        left = Renaming(there, exprs=e).matrix(s.left)
        c = w.var("row", s.k)
        x = e.load(left.buffer, left.element(Affine.of(p.row), Affine.of(c)))
        z = e.load(buffer, Renaming(own, exprs=e).affine(at) + c)
        return [before], [
            For(c, (Into(local, "add", e.fn("mul", x, z)),), "lanes")
        ]  # fmt: skip

    def call(
        self, w: Writer, p: Call, s: Gemm, start: Affine, size: int
    ) -> tuple[list[Stmt], Gemm, list[Stmt]]:
        """A call of BLAS for a block of rows, and what comes before and after it."""
        end = start + size
        rest = end != Affine(self.count)
        if s.out.buffer in w.band.addresses:
            return [], replace(s, upto=("n", end)) if rest else s, []
        if p.axis == "m":
            left = Affine(self.count) - end
            last = Affine(self.count - 1)
            after = self._zeros(w, p, s, (last, -1, left), start, size, add=True) if rest else []
            return [], replace(s, upto=("k", end)) if rest else s, after
        before = self._zeros(w, p, p.gemm, (Affine(), 1, start), start, size, add=False)
        return before, replace(s, upto=("m", end)) if rest else s, []

    def _zeros(
        self, w: Writer, p: Call, s: Gemm, rows: tuple[Affine, int, Affine],
        start: Affine, size: int, *, add: bool,
    ) -> list[Stmt]:  # fmt: skip
        """Add to `size` rows of the result from `start` on: 0 times the sum of rows of the right
        factor. These begin at the first of `rows`, and have its step and its count."""
        first, step, many = rows
        e, dtype = w.exprs, s.out.buffer.dtype
        renaming = w.renaming(p.leads, Affine(), {})
        right, out = renaming.matrix(p.gemm.right), renaming.matrix(p.gemm.out)
        j, i = w.var("column", s.n), w.var("row", size)
        total = w.local(dtype)
        sums: list[Stmt] = [Let(total, e.lit(0, dtype))]
        if many != Affine():
            k = w.var("row", self.count)
            source = first + Affine.of(k) * step
            value = e.load(right.buffer, right.element(source, Affine.of(j)))
            zero = e.fn("mul", e.lit(0, dtype), value)
            sums.append(For(k, (Into(total, "add", zero),), upto=many))
        place = out.element(start + i, Affine.of(j))
        store = Store(out.buffer, place, e.local(total), add=add)
        return [For(j, (*sums, For(i, (store,))), "lanes")]
