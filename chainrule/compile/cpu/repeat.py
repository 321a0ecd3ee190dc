"""A function that runs the program again and again.

    void repeat(ptr objects, ptr plan, ptr rows, i64 calls, ptr host)

It is called with the interpreter's lock, which it gives back meanwhile.

Each call has a row, as `call_rows.py` notes it. Before the call its words are put where the program
looks for them: the arrays in the table, the settings in `values`. What stands in for a result moves
on to the next one's elements. `plan` are the words that `REPEAT` names.

The arrays of a row lie anywhere, and so do their elements. The processor is asked for those of the
next row, and for the arrays of the one after that, before they are read.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.call_plan import REPEAT
from chainrule.compile.cpu.function_writer import PTR, VOID, FunctionWriter, int64
from chainrule.compile.cpu.interrupts import Run
from chainrule.compile.cpu.object_layout import ARRAY
from chainrule.compile.llvm.numbers import I64, declare, intrinsic

NAME = "repeat"


def repeat(run: Run, program: Any) -> None:
    """Add the function to a module that has `program`. A run that is to end does so after a whole
    number of calls."""
    s = FunctionWriter(run.module, NAME, [PTR, PTR, PTR, I64, PTR], VOID)
    (objects, plan, rows, calls, host), b = s.args, s.b
    w = {name: s.load(plan, i) for i, name in enumerate(REPEAT)}
    places, values, cells, blocks = [
        s.pointer(w[name]) for name in ("places", "values", "cells", "blocks")
    ]
    run.begin(b)
    last = b.sub(calls, int64(1))
    with s.count_up(calls) as call:
        row = s.element(rows, b.mul(call, w["width"]))
        coming = [
            s.element(rows, b.mul(intrinsic(b, "smin", b.add(call, int64(n)), last), w["width"]))
            for n in (1, 2)
        ]
        with s.count_up(w["arrays"]) as k:
            s.store(s.load(row, k), objects, s.load(places, k))
            following, later = [s.load(x, k, PTR) for x in coming]
            elements = s.field(following, ARRAY.data)
            for line in (0, 64):
                _prefetch(b, s.place(elements, int64(line)))
            _prefetch(b, s.place(later, ARRAY.data))
        with s.count_up(w["settings"]) as k:
            s.store(s.load(row, b.add(w["arrays"], k)), values, k)
        number = b.not_(s.load(row, b.sub(w["width"], int64(1))))
        block = s.element(blocks, b.mul(number, int64(2)))
        memory = [s.load(block, n, PTR) for n in (0, 1)]
        b.call(program, [objects, *memory, host, ir.Constant(PTR, None)])  # no clock
        with s.count_up(w["results"]) as k:
            cell = s.element(cells, b.mul(k, int64(2)))
            s.store(b.add(s.load(cell, 0), s.load(cell, 1)), cell, 0)
        with b.if_then(s.equal(b.and_(call, w["looks"]), 0)):
            stopped = b.call(run.poll, [int64(0)])
            with b.if_then(stopped, likely=False):
                run.end(b)
                b.ret_void()
    run.end(b)
    b.ret_void()


def _prefetch(b: Any, at: Any) -> None:
    """Ask for memory that is to be read, to be kept near."""
    i32 = ir.IntType(32)
    f = declare(b, "llvm.prefetch.p0", VOID, [PTR, i32, i32, i32])
    b.call(f, [at, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
