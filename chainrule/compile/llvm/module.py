"""A whole program as one LLVM module: a function for each kernel, and one that calls them.

    void program(ptr objects, ptr scratch, ptr sizes, ptr host, ptr times)

`objects` are the addresses of the caller's arrays and Python floats, as `id` gives them: what they
hold begins with the same number of bytes of bookkeeping, then the address of the data or the
number itself. `scratch` are addresses of memory for what lives in between, `sizes` the values of
the symbols; `host` is a number by which Python knows the program, should a statement need it. If
the module is `timed`, the cycles that kernel i takes are added to times[i].
"""

# llvmlite has no type annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from llvmlite import ir

from chainrule.compile.llvm import splitting
from chainrule.compile.llvm.gate import again, enter
from chainrule.compile.llvm.kernel import Emitter, size_of
from chainrule.compile.llvm.machine import Machine
from chainrule.compile.llvm.numbers import I64, declare, in_memory
from chainrule.compile.llvm.parallel import is_parallel, iterations, least
from chainrule.compile.llvm.repeating import repeat
from chainrule.compile.llvm.symbols import HEADER, HOST, INLINE
from chainrule.compile.llvm.watchman import unchanged
from chainrule.compile.llvm.whiles import is_short, kept_near, turning
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.rewrite import Canonical, canonical, sorted_buffers
from chainrule.compile.loops.statements import Host, Kernel, Loops, While, single
from chainrule.compile.terms.sizes import Extent

PTR = ir.PointerType()


@final
@dataclass(slots=True)
class Module:
    """What `emit` made: the code, and the statements that Python must run, by number.

    `machine` and `symbols` are those that it is made for, `functions` those of kernels by what they
    do.
    """

    ir: Any
    machine: Machine
    symbols: list[str]
    hosts: list[Host] = field(default_factory=list[Host])
    functions: dict[Any, Any] = field(default_factory=dict[Any, Any])


def emit(
    program: Loops,
    objects: Sequence[Buffer],
    scratch: Sequence[Buffer],
    machine: Machine,
    *,
    timed: bool = False,
) -> Module:
    """The module of `program`, whose caller passes `objects` and memory for `scratch`."""
    out = Module(ir.Module("chainrule"), machine, list(program.symbols))
    args = [PTR] * 5
    main = ir.Function(out.ir, ir.FunctionType(ir.VoidType(), args), "program")
    b = ir.IRBuilder(main.append_basic_block())
    given, temps, sizes, host, times = main.args
    pointers = {x: _data(b, given, i, x) for i, x in enumerate(objects)}
    for i, x in enumerate(scratch):
        pointers[x] = b.load(b.gep(temps, [ir.Constant(I64, i)], source_etype=PTR), typ=PTR)
    for x in program.buffers:
        if x.role == "constant":
            pointers[x] = _constant(out.ir, x)
    symbols = {
        s: b.load(b.gep(sizes, [ir.Constant(I64, i)], source_etype=I64), typ=I64)
        for i, s in enumerate(program.symbols)
    }
    shared = _shared(program.kernels) | {x for x in program.buffers if x.role != "scratch"}
    clock = ir.Function(out.ir, ir.FunctionType(I64, []), "llvm.readcyclecounter")
    for i, kernel in enumerate(program.kernels):
        start = b.call(clock, []) if timed else None
        _call(out, b, kernel, pointers, symbols, host, shared)
        if start is not None:
            slot = b.gep(times, [ir.Constant(I64, i)], source_etype=I64)
            took = b.sub(b.call(clock, []), start)
            b.store(b.add(b.load(slot, typ=I64), took), slot)
    b.ret_void()
    unchanged(out.ir)
    repeat(out.ir, main)
    again(out.ir)
    enter(out.ir, main)
    return out


def _data(b: Any, given: Any, i: int, x: Buffer) -> Any:
    thing = b.load(b.gep(given, [ir.Constant(I64, i)], source_etype=PTR), typ=PTR)
    held = b.gep(thing, [ir.Constant(I64, HEADER)], source_etype=ir.IntType(8))
    return held if x.label == "float" else b.load(held, typ=PTR)


def _constant(module: Any, x: Buffer) -> Any:
    data = np.ascontiguousarray(x.value).tobytes()
    kind = ir.ArrayType(ir.IntType(8), len(data))
    g: Any = ir.GlobalVariable(module, kind, x.name)
    g.linkage, g.global_constant, g.align = "internal", True, 64
    g.initializer = ir.Constant(kind, bytearray(data))
    return g


def _shared(kernels: Sequence[Kernel]) -> set[Buffer]:
    """Memory that several of the kernels use."""
    uses = Counter([b for k in kernels for b in sorted_buffers(k)])
    return {b for b, n in uses.items() if n > 1}


def _call(
    out: Module,
    b: Any,
    kernel: Kernel,
    pointers: dict[Buffer, Any],
    symbols: dict[str, Any],
    host: Any,
    shared: set[Buffer],
    *,
    inline: bool = False,
) -> None:
    """Call the kernel's function; one that has the same text as an earlier one is that one. With
    `inline` it becomes a part of whoever calls it. `shared` is memory of which others know."""
    (first, *_) = kernel.body
    if isinstance(first, Host):
        with _if(b, first.when, pointers):
            _host(b, host, len(out.hosts))
        out.hosts.append(first)
        return
    if isinstance(first, While):
        f = _while(out, kernel, first, shared)
        b.call(f, [*[pointers[x] for x in sorted_buffers(kernel)], *symbols.values(), host])
        return
    form = canonical(kernel)
    f = out.functions.get((form.text, inline))
    if f is None:
        f = _function(out, kernel.name, form, INLINE if inline else "noinline")
        if is_parallel(kernel):
            f = splitting.task(out.ir, f)
        out.functions[form.text, inline] = f
    args = [_from(b, pointers[x], x, start, symbols) for x, start in form.args]
    args += symbols.values()
    if is_parallel(kernel):
        splitting.run(b, f, args, size_of(b, iterations(kernel), symbols), least(kernel))
    else:
        b.call(f, args)


def _from(b: Any, pointer: Any, x: Buffer, start: Extent, symbols: dict[str, Any]) -> Any:
    """The address of element `start` of a buffer."""
    if start == 0:
        return pointer
    offset = size_of(b, start, symbols)
    return b.gep(pointer, [offset], source_etype=in_memory(x.dtype))


@contextmanager
def _if(b: Any, when: Buffer | None, pointers: dict[Buffer, Any]) -> Generator[None]:
    """What is emitted within is run only if the bool `when`, if there is one, holds."""
    if when is None:
        yield
        return
    flag = b.load(pointers[when], typ=ir.IntType(8))
    with b.if_then(b.icmp_unsigned("!=", flag, ir.Constant(flag.type, 0)), likely=False):
        yield


def _host(b: Any, host: Any, number: int) -> None:
    """Ask Python to run statement `number` of the program that `host` names."""
    f = declare(b, HOST, ir.VoidType(), [I64, I64])
    b.call(f, [b.ptrtoint(host, I64), ir.Constant(I64, number)])


def _begun(out: Module, name: str, buffers: int, more: Sequence[Any], inlining: str) -> Any:
    """A function of so many addresses of memory, the symbols, and `more`."""
    kinds = [*[PTR] * buffers, *[I64] * len(out.symbols), *more]
    f = ir.Function(out.ir, ir.FunctionType(ir.VoidType(), kinds), name)
    f.linkage = "internal"
    f.attributes.add(inlining)
    f.attributes.add("nounwind")
    for arg in f.args[:buffers]:
        arg.add_attribute("noalias")
        arg.add_attribute("nonnull")
    return f


def _while(out: Module, kernel: Kernel, loop: While, shared: set[Buffer]) -> Any:
    """The function of a loop of unknown length, whose numbers are in registers if they are few."""
    buffers = sorted_buffers(kernel)
    inline = is_short(kernel)
    f = _begun(out, kernel.name, len(buffers), [PTR], INLINE if inline else "noinline")
    b = ir.IRBuilder(f.append_basic_block("entry"))
    pointers = dict(zip(buffers, f.args, strict=False))
    symbols = dict(zip(out.symbols, f.args[len(buffers) :], strict=False))
    inner = _shared(loop.kernels) | {loop.going}
    hosts = [s for k in single(loop.kernels) for s in k.body if isinstance(s, Host)]
    with ExitStack() as around:
        near = around.enter_context(kept_near(b, kernel, pointers, shared))
        failed = [near[s.when] for s in hosts if s.when is not None]
        around.enter_context(turning(b, near[loop.going], failed))
        for k in loop.kernels:
            _call(out, b, k, near, symbols, f.args[-1], inner, inline=inline)
    b.ret_void()
    return f


def _function(out: Module, name: str, form: Canonical, inlining: str) -> Any:
    buffers, symbols = sorted_buffers(form.kernel), out.symbols
    split = is_parallel(form.kernel)
    f = _begun(out, name, len(buffers), [I64] * (2 * split), inlining)
    b = ir.IRBuilder(f.append_basic_block("entry"))
    body = f.append_basic_block("body")
    pointers = dict(zip(buffers, f.args, strict=False))
    sizes = dict(zip(symbols, f.args[len(buffers) :], strict=False))
    b.branch(body)
    entry = b.block
    b.position_at_end(body)
    emitter = Emitter(b, pointers, sizes, out.machine, form.kernel.body)
    emitter.entry(entry)
    if split:
        splitting.iterations(emitter, form.kernel, *f.args[-2:])
    else:
        emitter.run(form.kernel.body)
    b.ret_void()
    return f
