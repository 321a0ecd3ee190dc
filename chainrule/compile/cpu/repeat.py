"""A function that runs the program again and again.

    void repeat(ptr objects, ptr places, ptr rows, i64 moving, i64 turns, ptr host)

It is called with the interpreter's lock, which it gives back meanwhile.

Before each turn the words of its row are put where the program looks for them: `moving` objects at
the `places` of the table, then the addresses of scratch memory and of the symbols' values.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.interrupts import Run
from chainrule.compile.llvm.functions import I64
from chainrule.compile.llvm.serial_loops import count_up

NAME = "repeat"
_PTR = ir.PointerType()


def repeat(run: Run, program: Any) -> None:
    """Add the function to a module that has `program`. A run that is to end does so after a whole
    number of turns."""
    module = run.module
    kinds = [_PTR, _PTR, _PTR, I64, I64, _PTR]
    f = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), NAME)
    objects, places, rows, moving, turns, host = f.args
    b = ir.IRBuilder(f.append_basic_block("entry"))
    run.begin(b)
    width = b.add(moving, ir.Constant(I64, 2))
    with count_up(b, turns) as turn:
        row = b.gep(rows, [b.mul(turn, width)], source_etype=I64)
        with count_up(b, moving) as k:
            place = b.load(b.gep(places, [k], source_etype=I64), typ=I64)
            word = b.load(b.gep(row, [k], source_etype=I64), typ=I64)
            b.store(word, b.gep(objects, [place], source_etype=I64))
        words = [b.add(moving, ir.Constant(I64, n)) for n in (0, 1)]
        scratch, sizes = [b.load(b.gep(row, [n], source_etype=I64), typ=_PTR) for n in words]
        b.call(program, [objects, scratch, sizes, host, ir.Constant(_PTR, None)])
        with b.if_then(b.call(run.poll, [ir.Constant(I64, 0)]), likely=False):
            run.end(b)
            b.ret_void()
    run.end(b)
    b.ret_void()
