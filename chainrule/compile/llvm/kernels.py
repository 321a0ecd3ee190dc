"""Functions of kernels, and calls of these: what all targets that LLVM writes code for share.

Kernels with the same text are one function. A loop of unknown length is a function that calls those
of its kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from llvmlite import ir

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.llvm.function_calls import functions_called
from chainrule.compile.llvm.host_target import TargetModule
from chainrule.compile.llvm.kernel import Emitter, size_of
from chainrule.compile.llvm.numbers import I64, in_memory
from chainrule.compile.llvm.passes import INLINE
from chainrule.compile.llvm.platform import Platform, Polls, is_long
from chainrule.compile.llvm.while_loops import is_short, kept_near, while_holds
from chainrule.compile.loops.duration import is_parallel, iterations, least, nanoseconds, nest
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.rewrite import Canonical, canonical, sorted_buffers
from chainrule.compile.loops.statements import Host, Kernel, Loops, While, single

PTR = ir.PointerType()


@final
@dataclass(slots=True)
class Module:
    """The code of a program's kernels, and the statements that Python must run, by number.

    `functions` are those of kernels by what they do. `platform` is what kernels can ask for.
    """

    ir: Any
    symbols: list[str]
    platform: Platform | None
    hosts: list[Host] = field(default_factory=list[Host])
    functions: dict[Any, Any] = field(default_factory=dict[Any, Any])
    forms: dict[Kernel, tuple[Canonical, str]] = field(default_factory=dict[Any, Any])
    """Each kernel in numbered names, and its text."""
    called: dict[str, frozenset[str]] = field(default_factory=dict[Any, Any])
    """Functions of mathematics that are called, by the kernel's text."""

    @staticmethod
    def of(program: Loops, made: TargetModule, platform: Platform | None = None) -> Module:
        """The module of `program`, without code yet."""
        out = Module(made, list(program.symbols), platform)
        for k in single(program.kernels):
            if not isinstance(k.body[0], Host):
                form = canonical(k)
                out.forms[k] = form, form.text
        out.called = functions_called({text: form.kernel for form, text in out.forms.values()})
        return out


def constant(module: Any, x: Buffer) -> Any:
    """The memory of a constant, which belongs to the module."""
    data = np.ascontiguousarray(x.value).tobytes()
    kind = ir.ArrayType(ir.IntType(8), len(data))
    g: Any = ir.GlobalVariable(module, kind, x.name)
    g.linkage, g.global_constant, g.align = "internal", True, 64
    g.initializer = ir.Constant(kind, bytearray(data))
    return g


def shared_buffers(program: Loops) -> set[Buffer]:
    """Memory that more than one kernel uses, or others than kernels."""
    return _shared_buffers(program.kernels) | {x for x in program.buffers if x.role != "scratch"}


def _shared_buffers(kernels: Sequence[Kernel]) -> set[Buffer]:
    """Memory that several of the kernels use."""
    uses = Counter([b for k in kernels for b in sorted_buffers(k)])
    return {b for b, n in uses.items() if n > 1}


def call_kernel(
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
        _call_host(out, b, first, pointers, host)
        stops = True
    elif isinstance(first, While):
        f = _while(out, kernel, first, shared)
        b.call(f, [*[pointers[x] for x in sorted_buffers(kernel)], *symbols.values(), host])
        stops = True
    else:
        stops = polls is not None and is_long(kernel)
        _call_function(out, b, kernel, pointers, symbols, stops, INLINE if inline else "noinline")
    if stops and polls is not None:
        polls.leave_if_stopped(b)


def _call_host(out: Module, b: Any, s: Host, pointers: Mapping[Buffer, Any], host: Any) -> None:
    """Let Python run `s`, if what it is asked for by holds."""
    assert out.platform is not None, "nobody is there to run a statement in Python"
    with ExitStack() as around:
        if s.when is not None:
            flag = b.load(pointers[s.when], typ=ir.IntType(8))
            asked = b.icmp_unsigned("!=", flag, ir.Constant(flag.type, 0))
            around.enter_context(b.if_then(asked, likely=False))
        out.platform.host(b, host, len(out.hosts))
    out.hosts.append(s)


def _call_function(
    out: Module,
    b: Any,
    kernel: Kernel,
    pointers: Mapping[Buffer, Any],
    symbols: Mapping[str, Any],
    watched: bool,
    inlining: str,
) -> None:
    """Call a kernel's function, which is written first if it is not there; in threads if it is
    parallel."""
    form, text = out.forms[kernel]
    f = out.functions.get((text, inlining, watched))
    if f is None:
        f = out.functions[text, inlining, watched] = _function(out, kernel, inlining, watched)
    args = [_from(b, pointers[x], x, start, symbols) for x, start in form.args]
    args += symbols.values()
    if is_parallel(kernel):
        assert out.platform is not None, "there are no threads"
        count = size_of(b, iterations(kernel), symbols)
        out.platform.run_task(b, f, args, count, least(kernel), watched)
    else:
        b.call(f, args)


def _from(b: Any, pointer: Any, x: Buffer, start: Extent, symbols: Mapping[str, Any]) -> Any:
    """The address of element `start` of a buffer."""
    if start == 0:
        return pointer
    offset = size_of(b, start, symbols)
    return b.gep(pointer, [offset], source_etype=in_memory(x.dtype))


def _begin_function(
    out: Module, name: str, buffers: int, more: Sequence[Any], inlining: str
) -> Any:
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
    f = _begin_function(out, kernel.name, len(buffers), [PTR], INLINE if inline else "noinline")
    b = ir.IRBuilder(f.append_basic_block("entry"))
    pointers = dict(zip(buffers, f.args, strict=False))
    symbols = dict(zip(out.symbols, f.args[len(buffers) :], strict=False))
    inner = _shared_buffers(loop.kernels) | {loop.going}
    hosts = [s for k in single(loop.kernels) for s in k.body if isinstance(s, Host)]
    with ExitStack() as around:
        near = around.enter_context(kept_near(b, kernel, pointers, shared))
        failed = [near[s.when] for s in hosts if s.when is not None]
        polls = None if out.platform is None else out.platform.polls(f, None)
        each = nanoseconds([s for k in loop.kernels for s in k.body])
        around.enter_context(while_holds(b, near[loop.going], failed, polls, each))
        for k in loop.kernels:
            call_kernel(out, b, k, near, symbols, f.args[-1], inner, polls, inline=inline)
    b.ret_void()
    return f


def _function(out: Module, kernel: Kernel, inlining: str, watched: bool) -> Any:
    """The function of a kernel, of its buffers and sizes; of a range of iterations if it is
    parallel."""
    form, text = out.forms[kernel]
    buffers, symbols = sorted_buffers(form.kernel), out.symbols
    split = is_parallel(form.kernel)
    f = _begin_function(out, kernel.name, len(buffers), [I64] * (3 * split), inlining)
    b = ir.IRBuilder(f.append_basic_block("entry"))
    body = f.append_basic_block("body")
    pointers = dict(zip(buffers, f.args, strict=False))
    sizes = dict(zip(symbols, f.args[len(buffers) :], strict=False))
    b.branch(body)
    entry = b.block
    b.position_at_end(body)
    platform, polls = out.platform, None
    if watched and platform is not None:
        polls = platform.polls(f, f.args[-1] if split else None)
    emitter = Emitter(
        b, pointers, sizes, out.ir.target, form.kernel.body, platform, polls, out.called[text]
    )
    emitter.entry(entry)
    if split:
        if polls is not None:
            polls.look(b)
        _iterations(emitter, form.kernel, *f.args[-3:-1])
    else:
        emitter.run(form.kernel.body)
    b.ret_void()
    return platform.task(out.ir, f) if split and platform is not None else f


def _iterations(e: Emitter, kernel: Kernel, begin: Any, end: Any) -> None:
    """Emit the iterations from `begin` to `end` of a kernel's parallel loops, counted as one."""
    counters, body = nest(kernel)
    with e.counting(e.b.sub(end, begin), 1, e.takes(body)) as i:
        at = e.b.add(begin, i)
        for v in reversed(counters[1:]):
            n = e.extent(v.extent)
            e.vars[v] = e.b.urem(at, n)
            at = e.b.udiv(at, n)
        e.vars[counters[0]] = at
        e.run(body)
