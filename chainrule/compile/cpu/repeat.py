"""A function that runs the program again and again.

    void repeat(ptr objects, ptr places, ptr rows, i64 moving, i64 calls, ptr host)

It is called with the interpreter's lock, which it gives back meanwhile.

Before each call the words of its row are put where the program looks for them: `moving`
objects at the `places` of the table, then the addresses of scratch memory and of the symbols'
values.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.function_writer import PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.interrupts import Run
from chainrule.compile.llvm.numbers import I64

NAME = "repeat"


def repeat(run: Run, program: Any) -> None:
    """Add the function to a module that has `program`. A run that is to end does so after a whole
    number of calls."""
    s = FunctionWriter(run.module, NAME, [PTR, PTR, PTR, I64, I64, PTR], VOID)
    (objects, places, rows, moving, calls, host), b = s.args, s.b
    run.begin(b)
    width = b.add(moving, int64(2))
    with s.count_up(calls) as call:
        row = s.element(rows, b.mul(call, width))
        with s.count_up(moving) as k:
            s.store(s.load(row, k), objects, s.load(places, k))
        scratch, sizes = [s.load(row, b.add(moving, int64(n)), PTR) for n in (0, 1)]
        b.call(program, [objects, scratch, sizes, host, ir.Constant(PTR, None)])
        with b.if_then(b.call(run.poll, [int64(0)]), likely=False):
            run.end(b)
            b.ret_void()
    run.end(b)
    b.ret_void()
