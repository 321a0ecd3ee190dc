"""Loops over numbers, one after the other; those that go on for long look for signals."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from math import inf, log2
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from chainrule.compile.graph.sizes import typical
from chainrule.compile.llvm import numbers as nums
from chainrule.compile.llvm.numbers import I64, Value
from chainrule.compile.llvm.platform import LONG, STEP, Polls
from chainrule.compile.loops.expressions import within
from chainrule.compile.loops.functions import MATHEMATICS
from chainrule.compile.loops.statements import For, Into, Let, Stmt, Store, exprs_of, statements

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter

UNROLLED, MOST = 512, 8
"""A loop is written out if all its iterations together compute fewer expressions than the one, and
there are no more of them than the other."""
_MATHEMATICS = 50
"""Expressions that are as long as a function like `exp`."""


def iterations(
    e: Emitter, n: Value, step: int, body: Sequence[Stmt], each: float = 0.0
) -> Iterator[Value]:
    """The counter of a loop over `body`: of the loop, or of each iteration where it is written out.
    What is emitted meanwhile is the iteration."""
    count = n.constant // step if isinstance(n, ir.Constant) else 0
    if 0 < count <= MOST and count * expressions(body) < UNROLLED:
        for i in range(0, n.constant, step):
            with e.known.within():
                yield ir.Constant(I64, i)
        return
    with counting(e, n, step, each) as i:
        yield i


def expressions(body: Sequence[Stmt]) -> int:
    """How many expressions the statements compute, about; those of loops as often as they run. No
    more are counted than matter here."""
    total = 0
    for s in body:
        match s:
            case For():
                total += typical(s.var.extent) * (1 + expressions(s.body))
            case Let() | Into() | Store():
                each = [x for e in exprs_of(s) for x in within(e)]
                math = [x for x in each if x.kind == "fn" and x.of[0] in MATHEMATICS]
                total += 1 + len(each) + _MATHEMATICS * len(math)
            case _:
                total += UNROLLED
        if total >= UNROLLED:
            break
    return total


def has_mathematics(body: Sequence[Stmt]) -> bool:
    """Whether the statements compute functions like `exp`."""
    every = (x for s in statements(body) for e in exprs_of(s) for x in within(e))
    return any(x.kind == "fn" and x.of[0] in MATHEMATICS for x in every)


@contextmanager
def counting(e: Emitter, n: Value, step: int, each: float = 0.0) -> Generator[Value]:
    """What `Emitter.counting` says."""
    # How long it takes; of one in another, how long an iteration does.
    long = inf if e.polled_loops == 0 else each
    if isinstance(n, ir.Constant):
        long = each * n.constant / step if n.constant > step else 0.0
    polls = e.polls if each and long >= LONG else None
    if polls is None:
        with _counting(e, n, step) as i:
            yield i
        return
    e.polled_loops += 1
    with _polling_loop(e, n, step, each, polls) as i:
        yield i
    e.polled_loops -= 1


@contextmanager
def _polling_loop(e: Emitter, n: Value, step: int, each: float, polls: Polls) -> Generator[Value]:
    """A long loop: one that looks for signals between iterations, or between some of them."""
    several = step << max(0, int(log2(STEP / each))) if each < STEP else step
    with _counting(e, n, several, polls) as start:
        if several == step:
            yield start
            return
        left = e.b.sub(n, start, flags=("nsw",))
        most = nums.intrinsic(e.b, "smin", left, ir.Constant(I64, several))
        with _counting(e, most, step, some=True) as i:
            yield e.b.add(start, i, flags=("nsw",))


@contextmanager
def _counting(
    e: Emitter, n: Value, step: int, polls: Polls | None = None, *, some: bool = False
) -> Generator[Value]:
    """The loop itself, which `polls` between iterations; `some`: there is at least one."""
    b = e.b
    static = n.constant if isinstance(n, ir.Constant) else None
    zero, by = ir.Constant(I64, 0), ir.Constant(I64, step)
    if static is not None and static <= step:
        if static == 0:
            raise AssertionError("a loop without iterations")
        with e.known.within():
            yield zero
        return
    before = b.block
    body, after = b.append_basic_block("for"), b.append_basic_block("after")
    if static is None and not some:
        b.cbranch(b.icmp_signed(">", n, zero), body, after)
    else:
        b.branch(body)
    b.position_at_end(body)
    i = b.phi(I64)
    i.add_incoming(zero, before)
    with e.known.within():
        yield i
    following = b.add(i, by, flags=("nsw",))
    more = b.icmp_signed("<", following, n)
    if polls is None:
        b.cbranch(more, body, after)
    else:
        polls.between(b, more, body, after)
    i.add_incoming(following, b.block)
    b.position_at_end(after)


# --- a plain loop, for code outside of kernels ----------------------------------------------------


@contextmanager
def count_up(b: Any, n: Any) -> Generator[Any]:
    """A loop: 0, 1, ... below `n`, an integer of any width; what is emitted within is its body."""
    before, zero = b.block, ir.Constant(n.type, 0)
    body, after = b.append_basic_block("iteration"), b.append_basic_block("after")
    b.cbranch(b.icmp_signed(">", n, zero), body, after)
    b.position_at_end(body)
    i = b.phi(n.type)
    i.add_incoming(zero, before)
    yield i
    following = b.add(i, ir.Constant(n.type, 1))
    i.add_incoming(following, b.block)
    b.cbranch(b.icmp_signed("<", following, n), body, after)
    b.position_at_end(after)
