"""Large matrix products: a call of BLAS.

BLAS counts columns first, so it is asked for the transpose, right.T @ left.T, of what lies in rows.
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm.functions import I8
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.loops.expressions import Affine
from chainrule.compile.loops.statements import Gemm, Matrix
from chainrule.compile.terms.sizes import Extent

_PTR, _I32 = ir.PointerType(), ir.IntType(32)
SYMBOLS = {4: "chainrule_sgemm", 8: "chainrule_dgemm"}
"""BLAS's routine by the size of a number; `native` says where they are."""


def gemm(e: Emitter, s: Gemm) -> None:
    """Emit `s`."""
    b, dtype = e.b, s.out.buffer.dtype
    name = SYMBOLS[dtype.itemsize]
    f = fn.declare(b, name, ir.VoidType(), [_PTR] * 13)
    one = fn.type_of(dtype)

    def hold(value: Any) -> Any:
        slot = e.slot(value.type)
        b.store(value, slot)
        return slot

    def number(n: Extent | Affine) -> Any:
        return hold(b.trunc(e.affine(n) if isinstance(n, Affine) else e.extent(n), _I32))

    def letter(x: Matrix) -> Any:
        return hold(ir.Constant(I8, ord("N" if x.col == 1 else "T")))

    def lead(x: Matrix) -> Any:
        return number(x.row if x.col == 1 else x.col)

    def at(x: Matrix) -> Any:
        kind = fn.in_memory(x.buffer.dtype)
        return b.gep(e.pointers[x.buffer], [e.affine(x.at)], source_etype=kind)

    scale, keep = ir.Constant(one, 1.0), ir.Constant(one, 1.0 if s.add else 0.0)
    m, n, k = s.sizes
    b.call(f, [
        letter(s.right), letter(s.left), number(n), number(m), number(k), hold(scale),
        at(s.right), lead(s.right), at(s.left), lead(s.left), hold(keep), at(s.out), lead(s.out),
    ])  # fmt: skip
