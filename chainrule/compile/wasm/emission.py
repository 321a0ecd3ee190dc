"""A program in LLVM's language, in which all memory but that of constants has a fixed address.

void step()                           one call, on what lies in memory
void steps(i32 count, ptr calls, ptr results)
                                      one call after the other: each finds its sizes and inputs
                                      at `calls` and leaves its results at `results`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.llvm.host_target import TargetModule
from chainrule.compile.llvm.kernel import size_of
from chainrule.compile.llvm.kernels import PTR, Module, call_kernel, constant, shared_buffers
from chainrule.compile.llvm.numbers import I64
from chainrule.compile.llvm.serial_loops import count_up
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Loops
from chainrule.compile.wasm.draws import fill
from chainrule.compile.wasm.layout import Addresses, Region
from chainrule.compile.wasm.target import WASM
from chainrule.random import Draw

STEP, STEPS = "step", "steps"
"""The functions that it has for others."""
Drawing = tuple[Draw, Buffer | None, Extent]
"""Random numbers, where they belong, if they are read, and how many there are."""
_I1, _I32, _VOID = ir.IntType(1), ir.IntType(32), ir.VoidType()


def emit(
    program: Loops,
    addresses: Addresses,
    draws: Sequence[Drawing],
    asked: tuple[int, Buffer] | None = None,
) -> str:
    """The module of `program`, as text, which begins with its `draws`. With `asked` a call ends
    after so many kernels if the buffer, one int64, is not 0 then."""
    out = Module.of(program, TargetModule("chainrule", WASM))
    step = ir.Function(out.ir, ir.FunctionType(_VOID, []), STEP)
    b = ir.IRBuilder(step.append_basic_block())
    pointers = {x: _address(at) for x, at in addresses.buffers.items()}
    for x in program.buffers:
        if x.role == "constant":
            pointers[x] = constant(out.ir, x)
    symbols = {s: b.load(_address(addresses.sizes[s]), typ=I64) for s in program.symbols}
    shared, nobody = shared_buffers(program), ir.Constant(PTR, None)
    for draw, to, count in draws:
        g = _address(addresses.generators[draw.generator])
        fill(b, draw, g, None if to is None else pointers[to], size_of(b, count, symbols))
    for i, kernel in enumerate(program.kernels):
        if asked is not None and i == asked[0]:
            _end_unless_zero(b, pointers[asked[1]])
        call_kernel(out, b, kernel, pointers, symbols, nobody, shared, None)
    b.ret_void()
    _write_steps(out.ir, step, addresses)
    return str(out.ir)


def _end_unless_zero(b: Any, place: Any) -> None:
    wrong = b.icmp_signed("!=", b.load(place, typ=I64), ir.Constant(I64, 0))
    with b.if_then(wrong):
        b.ret_void()


def _address(at: int) -> Any:
    return ir.Constant(_I32, at).inttoptr(PTR)


def _write_steps(module: Any, step: Any, addresses: Addresses) -> None:
    f = ir.Function(module, ir.FunctionType(_VOID, [_I32, PTR, PTR]), STEPS)
    count, calls, results = f.args
    b = ir.IRBuilder(f.append_basic_block())
    with count_up(b, count) as i:
        _copy(b, _address(addresses.call.begin), _part(b, calls, i, addresses.call), addresses.call)
        b.call(step, [])
        returned = _address(addresses.results.begin)
        _copy(b, _part(b, results, i, addresses.results), returned, addresses.results)
    b.ret_void()


def _part(b: Any, start: Any, i: Any, region: Region) -> Any:
    """The address of the i-th copy of a region from `start` on."""
    at = b.mul(i, ir.Constant(_I32, region.size))
    return b.gep(start, [at], source_etype=ir.IntType(8))


def _copy(b: Any, to: Any, source: Any, region: Region) -> None:
    name = "llvm.memcpy.p0.p0.i32"
    kinds = [PTR, PTR, _I32, _I1]
    f = b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(_VOID, kinds), name)
    b.call(f, [to, source, ir.Constant(_I32, region.size), ir.Constant(_I1, 0)])
