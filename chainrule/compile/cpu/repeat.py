"""A function that runs the program again and again.

    void repeat(ptr objects, ptr places, ptr rows, i64 moving, i64 calls, ptr host)

It is called with the interpreter's lock, which it gives back meanwhile.

Before each call the words of its row are put where the program looks for them: `moving`
objects at the `places` of the table, then the addresses of scratch memory and of the symbols'
values.

The objects of a row lie anywhere, and so do their elements. The processor is asked for those of the
next row, and for the objects of the one after that, before they are read.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.function_writer import PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.interrupts import Run
from chainrule.compile.cpu.object_layout import ARRAY
from chainrule.compile.llvm.numbers import I64, declare, intrinsic

NAME = "repeat"


def repeat(run: Run, program: Any) -> None:
    """Add the function to a module that has `program`. A run that is to end does so after a whole
    number of calls."""
    s = FunctionWriter(run.module, NAME, [PTR, PTR, PTR, I64, I64, PTR], VOID)
    (objects, places, rows, moving, calls, host), b = s.args, s.b
    run.begin(b)
    width = b.add(moving, int64(2))
    last = b.sub(calls, int64(1))
    with s.count_up(calls) as call:
        row = s.element(rows, b.mul(call, width))
        coming = [
            s.element(rows, b.mul(intrinsic(b, "smin", b.add(call, int64(n)), last), width))
            for n in (1, 2)
        ]
        with s.count_up(moving) as k:
            s.store(s.load(row, k), objects, s.load(places, k))
            following, later = [s.load(x, k, PTR) for x in coming]
            elements = s.field(following, ARRAY.data)
            for line in (0, 64):
                _prefetch(b, s.place(elements, int64(line)))
            _prefetch(b, s.place(later, ARRAY.data))
        scratch, sizes = [s.load(row, b.add(moving, int64(n)), PTR) for n in (0, 1)]
        b.call(program, [objects, scratch, sizes, host, ir.Constant(PTR, None)])
        with b.if_then(b.call(run.poll, [int64(0)]), likely=False):
            run.end(b)
            b.ret_void()
    run.end(b)
    b.ret_void()


def _prefetch(b: Any, at: Any) -> None:
    """Ask for memory that is to be read, to be kept near."""
    i32 = ir.IntType(32)
    f = declare(b, "llvm.prefetch.p0", VOID, [PTR, i32, i32, i32])
    b.call(f, [at, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
