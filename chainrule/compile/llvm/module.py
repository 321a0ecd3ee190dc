"""A whole program as one LLVM module: a function for each kernel, and one that calls them.

    void program(ptr objects, ptr scratch, ptr sizes, ptr host, ptr times)
    void run(...)       the same, for who has the interpreter's lock, which is free meanwhile

`objects` are the addresses of the caller's arrays and Python floats, as `id` gives them: what they
hold begins with the same number of bytes of bookkeeping, then the address of the data or the
number itself. `scratch` are addresses of memory for what lives in between, `sizes` the values of
the symbols; `host` is the Python function that runs a statement by its number, should one need it.
If the module is `timed`, the cycles that kernel i takes are added to times[i].

A run can be ended (`interrupts.py`) until a kernel writes to the caller's state: from there on it
goes on to its end, so that state is that after a whole number of runs. Where loops of unknown
length, or statements of Python's, come after that, it can be ended everywhere, and the objects
whose numbers are in `undo`, a count and so many words, are half written then: who called has to put
back what was in them.
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
from chainrule.compile.llvm.calls import called
from chainrule.compile.llvm.gate import again, enter
from chainrule.compile.llvm.interrupts import STEP, Polls, Run
from chainrule.compile.llvm.kernel import Emitter, size_of
from chainrule.compile.llvm.machine import Machine
from chainrule.compile.llvm.numbers import I64, in_memory
from chainrule.compile.llvm.parallel import is_long, is_parallel, iterations, least, nanoseconds
from chainrule.compile.llvm.repeating import repeat
from chainrule.compile.llvm.symbols import HEADER, INLINE, UNDO
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
    forms: dict[Kernel, tuple[Canonical, str]] = field(default_factory=dict[Any, Any])
    """Each kernel in numbered names, and its text."""
    called: dict[str, frozenset[str]] = field(default_factory=dict[Any, Any])
    """Functions of mathematics that are called, by the kernel's text."""
    run: Run = field(init=False)

    def __post_init__(self) -> None:
        self.run = Run(self.ir)


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
    polls, taken = Polls(out.run, main), 0.0
    _read(out, program)
    free, spoiled = _interruptible(program.kernels)
    _words(out.ir, UNDO, [objects.index(x) for x in spoiled])
    for i, kernel in enumerate(program.kernels):
        watched = polls if i < free else None
        start = b.call(clock, []) if timed else None
        _call(out, b, kernel, pointers, symbols, host, shared, watched)
        if start is not None:
            slot = b.gep(times, [ir.Constant(I64, i)], source_etype=I64)
            took = b.sub(b.call(clock, []), start)
            b.store(b.add(b.load(slot, typ=I64), took), slot)
        taken += nanoseconds(kernel.body)
        if watched is not None and taken >= STEP and i + 1 < len(program.kernels):
            watched.look(b)
            taken = 0.0
    b.ret_void()
    unchanged(out.ir)
    _entry(out.run, main)
    repeat(out.run, main)
    again(out.ir)
    enter(out.run, main)
    return out


def _read(out: Module, program: Loops) -> None:
    """Look at all kernels: what they are, and what they call."""
    for k in single(program.kernels):
        if not isinstance(k.body[0], Host):
            form = canonical(k)
            out.forms[k] = form, form.text
    out.called = called({text: form.kernel for form, text in out.forms.values()})


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
    polls: Polls | None,
    *,
    inline: bool = False,
) -> None:
    """Call the kernel's function; one that has the same text as an earlier one is that one. With
    `inline` it becomes a part of whoever calls it. `shared` is memory of which others know. With
    `polls` it can be left when the run is to end, as can its caller."""
    (first, *_) = kernel.body
    if isinstance(first, Host):
        with _if(b, first.when, pointers):
            out.run.host(b, host, len(out.hosts))
            if polls is not None:
                polls.leave_if_stopped(b)
        out.hosts.append(first)
        return
    if isinstance(first, While):
        f = _while(out, kernel, first, shared)
        b.call(f, [*[pointers[x] for x in sorted_buffers(kernel)], *symbols.values(), host])
        if polls is not None:
            polls.leave_if_stopped(b)
        return
    form, text = out.forms[kernel]
    watched = polls is not None and is_long(kernel)
    f = out.functions.get((text, inline, watched))
    if f is None:
        f = _function(out, kernel, INLINE if inline else "noinline", watched)
        if is_parallel(kernel):
            f = splitting.task(out.ir, f)
        out.functions[text, inline, watched] = f
    args = [_from(b, pointers[x], x, start, symbols) for x, start in form.args]
    args += symbols.values()
    if is_parallel(kernel):
        count, poll = size_of(b, iterations(kernel), symbols), out.run.poll if watched else None
        splitting.run(b, f, args, count, least(kernel), poll)
    else:
        b.call(f, args)
    if watched and polls is not None:
        polls.leave_if_stopped(b)


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
        polls = Polls(out.run, f)
        each = nanoseconds([s for k in loop.kernels for s in k.body])
        around.enter_context(turning(b, near[loop.going], failed, polls, each))
        for k in loop.kernels:
            _call(out, b, k, near, symbols, f.args[-1], inner, polls, inline=inline)
    b.ret_void()
    return f


def _function(out: Module, kernel: Kernel, inlining: str, watched: bool) -> Any:
    form, text = out.forms[kernel]
    buffers, symbols = sorted_buffers(form.kernel), out.symbols
    split = is_parallel(form.kernel)
    f = _begun(out, kernel.name, len(buffers), [I64] * (3 * split), inlining)
    b = ir.IRBuilder(f.append_basic_block("entry"))
    body = f.append_basic_block("body")
    pointers = dict(zip(buffers, f.args, strict=False))
    sizes = dict(zip(symbols, f.args[len(buffers) :], strict=False))
    b.branch(body)
    entry = b.block
    b.position_at_end(body)
    polls = Polls(out.run, f, f.args[-1] if split else None) if watched else None
    emitter = Emitter(b, pointers, sizes, out.machine, form.kernel.body, polls, out.called[text])
    emitter.entry(entry)
    if split:
        if polls is not None:
            polls.look(b)
        splitting.iterations(emitter, form.kernel, *f.args[-3:-1])
    else:
        emitter.run(form.kernel.body)
    b.ret_void()
    return f
