"""Loops of unknown length: the jumps, and numbers that stay in registers from iteration to
iteration.

A loop with short iterations works on copies of what it writes, on its stack. There LLVM makes
registers of them, unlike in memory that others may know.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from chainrule.compile.llvm.numbers import I8, I64, in_memory
from chainrule.compile.llvm.platform import STEP, Polls
from chainrule.compile.loops.duration import is_parallel, nanoseconds
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Gemm, Kernel, Product, Routine, single, statements

SHORT = 1_000.0
"""Nanoseconds up to which an iteration is short, by an estimate."""
SMALL = 64
"""Of how many numbers a copy is kept at most."""
_ALIGN = 64
MOST = 4096
"""Iterations between two looks for signals, at most."""


def is_short(kernel: Kernel) -> bool:
    """Whether an iteration of the loop takes so little time that calls and memory would be felt."""
    plain = not any(is_parallel(k) for k in single([kernel]))
    matrices = any(isinstance(s, Routine | Gemm | Product) for s in statements(kernel.body))
    return plain and not matrices and nanoseconds(kernel.body) <= SHORT


@contextmanager
def while_holds(
    b: Any, going: Any, failed: Iterable[Any], polls: Polls | None, each: float
) -> Generator[None]:
    """As long as the bool at `going` holds, and none of those at `failed`, which are false at
    first: what is emitted within. It `polls`, if it can be ended; `each` is about how many
    nanoseconds an iteration takes."""
    failed = list(failed)
    for at in failed:
        b.store(ir.Constant(I8, 0), at)
    head, body, done = (b.append_basic_block(name) for name in ("head", "turn", "done"))
    b.branch(head)
    b.position_at_end(head)
    holds, *fails = [
        b.icmp_unsigned("!=", b.load(at, typ=I8), ir.Constant(I8, 0)) for at in (going, *failed)
    ]
    for fail in fails:
        holds = b.and_(holds, b.not_(fail))
    b.cbranch(holds, body, done)
    b.position_at_end(body)
    yield
    if polls is not None:
        _look_sometimes(b, polls, each)
    b.branch(head)
    b.position_at_end(done)


def _look_sometimes(b: Any, polls: Polls, each: float) -> None:
    """Poll after some of the iterations, which take `each` nanoseconds."""
    often = ir.Constant(I64, min(MOST, int(STEP / max(each, 1.0)) + 1))
    with b.goto_entry_block():
        left = b.alloca(I64)
        b.store(often, left)
    fewer = b.sub(b.load(left, typ=I64), ir.Constant(I64, 1))
    b.store(fewer, left)
    with b.if_then(b.icmp_signed("==", fewer, ir.Constant(I64, 0)), likely=False):
        polls.look(b)
        b.store(often, left)


@contextmanager
def kept_near(
    b: Any, kernel: Kernel, pointers: Mapping[Buffer, Any], shared: set[Buffer]
) -> Generator[dict[Buffer, Any]]:
    """Addresses for what is emitted within. Where the kernel writes a few numbers, these are of
    copies on the stack, which are copied back at the end if they are `shared`."""
    _, writes = kernel.buffers()
    sizes = {x: x.size for x in writes if isinstance(x.size, int) and x.size <= SMALL}
    few = sizes if is_short(kernel) else dict[Buffer, int]()
    near = dict(pointers)
    for x, n in few.items():
        near[x] = b.alloca(ir.ArrayType(in_memory(x.dtype), n), name=x.name)
        near[x].align = _ALIGN
        near[x].type = ir.PointerType()  # not of arrays: numbers and vectors are stored there
    for x, n in few.items():
        if x in shared:  # also where it is only written: maybe no iteration does, or only a part
            _copy(b, in_memory(x.dtype), n, pointers[x], near[x])
    yield near
    for x, n in few.items():
        if x in shared:
            _copy(b, in_memory(x.dtype), n, near[x], pointers[x])


def _copy(b: Any, kind: Any, n: int, source: Any, target: Any) -> None:
    for i in range(n):
        at = [ir.Constant(I64, i)]
        value = b.load(b.gep(source, at, source_etype=kind), typ=kind)
        b.store(value, b.gep(target, at, source_etype=kind))
