"""A parallel kernel in LLVM's words: some of its iterations, as a task for the pool.

void kernel(buffers ..., sizes ..., i64 begin, i64 end, i64 me)
void kernel_task(ptr args, i64 begin, i64 end, i64 me)     `args`: buffers and sizes, a word each
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from chainrule.compile.cpu.symbols import PARALLEL
from chainrule.compile.llvm.numbers import I64, declare

_PTR, _VOID = ir.PointerType(), ir.VoidType()


def task(module: Any, f: Any) -> Any:
    """The function `f(..., begin, end, me)` as a task: its other arguments are words at `args`."""
    words = f.ftype.args[:-3]
    out = ir.Function(module, ir.FunctionType(_VOID, [_PTR, I64, I64, I64]), f"{f.name}_task")
    out.linkage = "internal"
    at, begin, end, me = out.args
    b = ir.IRBuilder(out.append_basic_block())
    given = [
        b.load(b.gep(at, [ir.Constant(I64, i)], source_etype=kind), typ=kind)
        for i, kind in enumerate(words)
    ]
    b.call(f, [*given, begin, end, me])
    b.ret_void()
    return out


def run(
    poll: Any, b: Any, f: Any, args: Sequence[Any], count: Any, least: int, polls: bool
) -> None:
    """Let the pool do `count` iterations of the task `f`, with these words as `args`. While it
    waits for others it calls `poll`, if it `polls`."""
    with b.goto_entry_block():
        words = b.alloca(I64, size=len(args))
    for i, x in enumerate(args):
        word = b.ptrtoint(x, I64) if isinstance(x.type, ir.PointerType) else x
        b.store(word, b.gep(words, [ir.Constant(I64, i)], source_etype=I64))
    parallel = declare(b, PARALLEL, _VOID, [_PTR, _PTR, I64, I64, _PTR])
    called = poll if polls else ir.Constant(_PTR, None)
    b.call(parallel, [f, words, count, ir.Constant(I64, least), called])
