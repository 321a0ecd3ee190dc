"""A whole program as one LLVM module: a function for each kernel, and one that calls them.

    void program(ptr objects, ptr scratch, ptr sizes, ptr host, ptr times)
    void run(...)       the same, for who has the interpreter's lock, which is free meanwhile

`objects` are the addresses of the caller's arrays and Python floats, as `id` gives them. Both begin
with the same number of bytes of bookkeeping; the address of the data, or the number itself, comes
next. `scratch` are addresses of memory for what lives in between, `sizes` the values of
the symbols; `host` is the Python function that runs a statement by its number, should one need it.
If the module is `timed`, the cycles that kernel i takes are added to times[i].

A run can be ended (`interrupts.py`) until a kernel writes to the caller's state. From then on it
runs to its end, so the state is always that after a whole number of runs. If loops of unknown
length, or statements of Python's, come after that, it can be ended everywhere. Then some objects
are half written, and who called has to put back what was in them: `undo` is their count and their
numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.call_gate import enter
from chainrule.compile.cpu.interrupts import Polls, Run
from chainrule.compile.cpu.platform import processor
from chainrule.compile.cpu.repeat import repeat
from chainrule.compile.cpu.symbols import HEADER, UNDO
from chainrule.compile.llvm.host_target import TargetModule
from chainrule.compile.llvm.kernels import PTR, Module, call_kernel, constant, shared_buffers
from chainrule.compile.llvm.numbers import I64, declare
from chainrule.compile.llvm.platform import STEP
from chainrule.compile.loops.duration import nanoseconds
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Host, Kernel, Loops, While, single
from chainrule.compile.target import Target


def emit(
    program: Loops,
    objects: Sequence[Buffer],
    scratch: Sequence[Buffer],
    target: Target,
    *,
    timed: bool = False,
) -> Module:
    """The module of `program`, whose caller passes `objects` and memory for `scratch`."""
    module = TargetModule("chainrule", target)
    run = Run(module)
    out = Module.of(program, module, processor(run))
    args = [PTR] * 5
    main = ir.Function(out.ir, ir.FunctionType(ir.VoidType(), args), "program")
    b = ir.IRBuilder(main.append_basic_block())
    given, temps, sizes, host, times = main.args
    pointers = {x: _data(b, given, i, x) for i, x in enumerate(objects)}
    pointers |= {x: _element(b, temps, i, PTR) for i, x in enumerate(scratch)}
    pointers |= {x: constant(out.ir, x) for x in program.buffers if x.role == "constant"}
    symbols = {s: _element(b, sizes, i, I64) for i, s in enumerate(program.symbols)}
    shared = shared_buffers(program)
    polls, taken = Polls(run, main), 0.0
    free, spoiled = _interruptible(program.kernels)
    _words(out.ir, UNDO, [objects.index(x) for x in spoiled])
    for i, kernel in enumerate(program.kernels):
        watched = polls if i < free else None
        with _counting_cycles(b, times, i) if timed else nullcontext():
            call_kernel(out, b, kernel, pointers, symbols, host, shared, watched)
        taken += nanoseconds(kernel.body)
        if watched is not None and taken >= STEP and i + 1 < len(program.kernels):
            watched.look(b)
            taken = 0.0
    b.ret_void()
    _entry(run, main)
    repeat(run, main)
    enter(run, main)
    return out


@contextmanager
def _counting_cycles(b: Any, times: Any, i: int) -> Generator[None]:
    """Within it cycles are counted, and added to times[i]."""
    clock = declare(b, "llvm.readcyclecounter", I64, [])
    start = b.call(clock, [])
    yield
    slot = b.gep(times, [ir.Constant(I64, i)], source_etype=I64)
    took = b.sub(b.call(clock, []), start)
    b.store(b.add(b.load(slot, typ=I64), took), slot)


def _interruptible(kernels: Sequence[Kernel]) -> tuple[int, list[Buffer]]:
    """The number of kernels after which a run can be ended, and the state that is half written if
    it is."""
    writes = [
        [x for k in single([kernel]) for x in k.buffers()[1] if x.role == "state"]
        for kernel in kernels
    ]
    first = next((i for i, found in enumerate(writes) if found), len(kernels))
    if not any(isinstance(k.body[0], While | Host) for k in kernels[first:]):
        return first, []
    return len(kernels), list(dict.fromkeys([x for found in writes for x in found]))


def _words(module: Any, name: str, words: Sequence[int]) -> None:
    """Numbers that who loads the code can read: how many there are, then these."""
    kind = ir.ArrayType(I64, len(words) + 1)
    g: Any = ir.GlobalVariable(module, kind, name)
    g.global_constant, g.initializer = True, ir.Constant(kind, [len(words), *words])


def _entry(run: Run, program: Any) -> None:
    """Add the function that runs the program without the interpreter's lock."""
    f = ir.Function(run.module, program.ftype, "run")
    b = ir.IRBuilder(f.append_basic_block())
    run.begin(b)
    b.call(program, f.args)
    run.end(b)
    b.ret_void()


def _data(b: Any, given: Any, i: int, x: Buffer) -> Any:
    thing = _element(b, given, i, PTR)
    held = b.gep(thing, [ir.Constant(I64, HEADER)], source_etype=ir.IntType(8))
    return held if x.label == "float" else b.load(held, typ=PTR)


def _element(b: Any, array: Any, i: int, kind: Any) -> Any:
    return b.load(b.gep(array, [ir.Constant(I64, i)], source_etype=kind), typ=kind)
