"""Calls of LAPACK in Fortran's way: everything is passed by its address.

LAPACK takes no matrix without rows for one: a call with a size that turns out to be 0 is left out.
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.symbols import lapack
from chainrule.compile.graph.sizes import Size
from chainrule.compile.llvm import functions as fn
from chainrule.compile.llvm.functions import I8, I64
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.llvm.numbers import I1
from chainrule.compile.loops.statements import Routine, Span

_PTR, _I32 = ir.PointerType(), ir.IntType(32)


def routine(e: Emitter, s: Routine) -> None:
    """Emit `s`."""
    b = e.b
    f = fn.declare(b, lapack(s.name, s.dtype.itemsize), ir.VoidType(), [_PTR] * len(s.args))

    def passed(x: Any) -> Any:
        match x:
            case Span():
                kind = fn.in_memory(x.buffer.dtype)
                return b.gep(e.pointers[x.buffer], [e.affine(x.at)], source_etype=kind)
            case str():
                value = ir.Constant(I8, ord(x))
            case _:
                value = b.trunc(e.extent(x), _I32)
        slot = e.slot(value.type)
        b.store(value, slot)
        return slot

    unknown = [e.extent(x) for x in s.args if isinstance(x, Size)]
    some = ir.Constant(I1, 1)
    for n in unknown:
        some = b.and_(some, b.icmp_signed(">", n, ir.Constant(I64, 0)))
    with b.if_then(some) if unknown else nullcontext():
        b.call(f, [passed(x) for x in s.args])
