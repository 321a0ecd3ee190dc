"""How a matrix product is computed: in place, from copies of parts of its matrices, or by BLAS.

Notation: (m, k) @ (k, n) -> (m, n).
"""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.compile.graph.sizes import Extent, product, typical
from chainrule.compile.graph.terms import Term
from chainrule.compile.target import Target

BLAS_FROM = 64 * 64 * 64
"""From how many multiplications on BLAS may be faster."""
WIDE = 64
"""Bytes of a register from which on tiles in place are faster: measured with 64, AVX-512."""
DEEP = 2048
"""From how many terms of a sum on BLAS is, where nothing is copied: too much of the right matrix
comes between two rows of the left one to stay in a cache."""
FEW = 32
"""Rows and columns up to which a matrix stays in the first cache, or in registers, on its own."""
LARGE = 1 << 24
"""Bytes from which on neither a result is kept for what comes later (a band may save it), nor a
right matrix is copied to lie in rows."""
ROWS = 64
"""From so many rows on copying a panel pays: it is read again for each tile of some of them."""
VECTORS = 4
"""A panel is so many registers wide, as the widest tile is."""
NEAR = 1 << 18
"""Bytes of a right matrix that stays near without being copied, if its columns lie together."""


def sizes(t: Term) -> tuple[Extent, Extent, Extent]:
    """m, n, k."""
    a = t.args[0].shape
    k = a[-2] if t.op.transpose_a else a[-1]
    return t.shape[-2], t.shape[-1], k


def is_large(t: Term) -> bool:
    """Whether BLAS can do it, and a call of it would pay."""
    m, n, k = map(typical, sizes(t))
    return t.dtype.itemsize in (4, 8) and min(m, n, k) >= 8 and m * n * k >= BLAS_FROM


def for_blas(t: Term, target: Target) -> bool:
    """Whether BLAS does it faster, or as a part of a band. Products of many pairs of matrices are
    what attention is made of, unless what is read again and again, or added up, is small."""
    m, n, k = map(typical, sizes(t))
    large = max(m * n, n * k if t.op.transpose_b else 0) * t.dtype.itemsize > LARGE
    fast = target.vector >= WIDE and (in_panels(t, target) or (k <= DEEP and not large))
    many = typical(product(t.shape[:-2])) > 1 and max(n, min(m, k)) > FEW
    return target.libraries and is_large(t) and (not fast or many)


def in_panels(t: Term, target: Target) -> bool:
    """Whether it is faster with copies of parts of its right matrix, if it is computed in place."""
    single = typical(product(t.shape[:-2])) == 1
    return single and panels_pay(sizes(t), t.dtype.itemsize, target, across=t.op.transpose_b)


def panels_pay(sizes: Sequence[Extent], itemsize: int, target: Target, *, across: bool) -> bool:
    """Whether panels are faster for m, n and k; `across` says that columns do not lie together."""
    m, n, k = sizes
    if not isinstance(n, int) or not isinstance(k, int):
        return False
    if typical(m) < ROWS or n < 2 * panel_width(itemsize, target) or k < ROWS:
        return False
    return across or n * k * itemsize > NEAR


def panel_width(itemsize: int, target: Target) -> int:
    """Columns of a panel."""
    return VECTORS * target.lanes(itemsize)
