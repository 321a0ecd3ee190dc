"""The kernel of a band, and its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import final

from chainrule.compile.graph.sizes import Extent, typical
from chainrule.compile.loops.expressions import Affine, Buffer, Exprs, Local, Var
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import For, Gemm, Kernel, Let, Stmt, Store, statements
from chainrule.compile.lower.attention_blocks import triangles
from chainrule.compile.lower.attention_blocks.band_types import (
    Band,
    Call,
    RowAddress,
    Rows,
    transpose_gemm,
)

SLOTS = 64
"""Of so many iterations of the outermost loops each has memory of its own, so that cores can share
them."""
SMALL, LARGE = 64, 256
"""Rows in a block, at least and at most."""
CACHED = 1 << 19
"""Bytes of one array's block: some of them stay in a core's cache."""


@final
class Writer:
    """Writes the kernel of a band."""

    def __init__(self, band: Band) -> None:
        self.band = band
        self.exprs = Exprs()
        self.more: list[Buffer] = []
        self._names = 0
        self.count = band.count
        self.leads = [Var(v.name, v.extent) for v in band.bodies[0].leads]
        self.triangle = triangles.find_triangle(band)
        self.size = self._size()
        self.own = {b: self._buffer(b, p) for b, p in band.addresses.items()}

    def _size(self) -> int:
        """Rows in a block."""
        widest = max([p.row * b.dtype.itemsize for b, p in self.band.addresses.items()])
        parts = 2 if self.triangle is None else 4  # small blocks leave more out
        size = max(SMALL, min(LARGE, CACHED // widest, self.count // parts))
        even = [n for n in range(size, size // 2, -1) if self.count % n == 0 and n % 16 == 0]
        return even[0] if even else size // 16 * 16

    def _outer_leads(self) -> list[int]:
        """Which of the outermost loops' iterations have memory of their own."""
        kept, iterations = list[int](), 1
        for n, v in enumerate(self.leads):
            iterations *= typical(v.extent)
            if n > 0 and iterations > SLOTS:
                break
            kept.append(n)
        return kept

    def _buffer(self, b: Buffer, place: RowAddress) -> tuple[Buffer, Affine]:
        """Memory for a block of `b`, and how far its elements move when `start` is 0."""
        kept, step = self._outer_leads(), self.size * place.row
        shape = (*[self.leads[n].extent for n in kept], self.size, place.row)
        moved = Affine()
        for v, c in zip(self.leads, place.leads, strict=True):
            moved += Affine.of(v) * c
        inner: Extent = step
        for n in reversed(kept):
            moved -= Affine.of(self.leads[n]) * inner
            inner = self.leads[n].extent * inner
        new = Buffer(b.name, b.dtype, shape, "scratch", None, f"{b.label}, a block of rows")
        return new, moved

    def kernel(self) -> tuple[Kernel, list[Buffer]]:
        """It, and its memory."""
        band = self.band
        blocks, left = divmod(self.count, self.size)
        body = [s for p in band.calls for s in self._zero_sums(p)]
        counter = Var(f"{band.bodies[0].row.name}_block", blocks)
        start = Affine.of(counter) * self.size if blocks > 1 else Affine()
        each = self._block(start, self.size, "")
        body += [For(counter, tuple(each))] if blocks > 1 else each
        if left:
            body += self._block(Affine(blocks * self.size), left, "_left")
        for n, v in reversed([*enumerate(self.leads)]):
            body = [For(v, tuple(body), independent=n in self._outer_leads())]
        about = tuple([line for p in band.members for line in p.kernel.about])
        name = f"{band.members[0].kernel.name}_band"
        return Kernel(name, tuple(body), about), [*[b for b, _ in self.own.values()], *self.more]

    def memory(self, count: Extent, dtype: object) -> tuple[Buffer, Affine]:
        """New memory for `count` numbers, and where it begins."""
        kept = self._outer_leads()
        shape = (*[self.leads[n].extent for n in kept], count)
        name = f"{self.band.bodies[0].kernel.name}_z{len(self.more)}"
        new = Buffer(name, dtype, shape, "scratch")
        self.more.append(new)
        at, inner = Affine(), count
        for n in reversed(kept):
            at += Affine.of(self.leads[n]) * inner
            inner = self.leads[n].extent * inner
        return new, at

    def var(self, name: str, extent: Extent) -> Var:
        """A new counter."""
        self._names += 1
        return Var(f"{name}{self._names}", extent)

    def local(self, dtype: object) -> Local:
        """A new sum in a register."""
        self._names += 1
        return Local(f"total{self._names}", dtype)

    def _zero_sums(self, p: Call) -> list[Stmt]:
        """What is summed over the rows begins as 0, unless the blocks begin it themselves."""
        if p.axis != "k" or self.triangle is not None:
            return []
        out = self.renaming(p.leads, Affine(), {}).matrix(p.gemm.out)
        i, j = self.var("row", p.gemm.m), self.var("column", p.gemm.n)
        at = out.element(Affine.of(i), Affine.of(j))
        store = Store(out.buffer, at, self.exprs.lit(0, out.buffer.dtype))
        outer, inner = (i, j) if out.col == 1 else (j, i)
        loop = For(inner, (store,), "lanes", independent=True)
        return [For(outer, (loop,), independent=True)]

    def renaming(self, leads: Sequence[Var], start: Affine, more: Mapping[Var, Affine]) -> Renaming:
        """From the names of a part, for the rows from `start` on, to those of the band."""
        new = {v: Affine.of(w) for v, w in zip(leads, self.leads, strict=True)}
        shifts = {
            b: moved + start * self.band.addresses[b].row for b, (_, moved) in self.own.items()
        }
        buffers = {b: new for b, (new, _) in self.own.items()}
        return Renaming({**new, **more}, {}, buffers, shifts, self.exprs)

    def _block(self, start: Affine, size: int, suffix: str) -> list[Stmt]:
        """All parts for `size` rows from `start` on."""
        out: list[Stmt] = []
        for p in self.band.members:
            if isinstance(p, Rows):
                row = Var(f"{p.row.name}{suffix}", size)
                renaming = self.renaming(p.leads, start, {p.row: start + row})
                before, body = list[Stmt](), p.body
                if self.triangle is not None:
                    before, body = self.triangle.trimmed(self, p, start, size)
                _rename(renaming, body, suffix)
                out += [*before, For(row, renaming.body(body), independent=True)]
            else:
                out += self._call(p, start, size)
        return out

    def _call(self, p: Call, start: Affine, size: int) -> list[Stmt]:
        """A call of BLAS for some of the rows."""
        s = p.gemm
        if p.axis == "m":
            left, out = s.left.from_element(start, Affine()), s.out.from_element(start, Affine())
            s = replace(s, m=size, left=left, out=out)
        else:
            left, right = (
                s.left.from_element(Affine(), start),
                s.right.from_element(start, Affine()),
            )
            s = replace(s, k=size, left=left, right=right, add=True)
        before, after = list[Stmt](), list[Stmt]()
        if self.triangle is not None:
            before, s, after = self.triangle.call(self, p, s, start, size)
        done = self.renaming(p.leads, start, {}).stmt(s)
        assert isinstance(done, Gemm)
        return [*before, transpose_gemm(done) if p.transposed else done, *after]


def _rename(renaming: Renaming, body: Sequence[Stmt], suffix: str) -> None:
    """New names for the counters and numbers of a body that is written more than once."""
    for s in statements(body):
        if isinstance(s, For):
            renaming.vars[s.var] = Affine.of(Var(f"{s.var.name}{suffix}", s.var.extent))
        if isinstance(s, Let):
            renaming.locals[s.local] = Local(f"{s.local.name}{suffix}", s.local.dtype)
