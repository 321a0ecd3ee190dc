"""Loops of unknown length: the kernels of a turn, on memory of the program around it.

The carries of a loop lie where its results are: they are copied there first, and each turn updates
them in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.compile.graph.loop_body import turns_of
from chainrule.compile.graph.rules.simplify import turn_simplified
from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Buffer, computable
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import Host, Kernel, Loops, Stmt, Store, While, single
from chainrule.compile.loops.views import whole
from chainrule.errors import TraceError

if TYPE_CHECKING:
    from chainrule.compile.lower.scheduler import Scheduler


def is_native(s: Scheduler, t: Term) -> bool:
    """Whether `t` is such a loop, and every op of its turns has loops."""
    turns = turns_of(t)
    if turns is None or not all(computable(x.dtype) for x in turns.program.inputs):
        return False
    from chainrule.compile.lower.scheduler import Scheduler

    scheduler = Scheduler(turns.simple(turn_simplified), s.target, s.called)
    loops = scheduler.run()
    s.turns[t] = scheduler, loops
    hosts = [x for k in single(loops.kernels) for x in k.body if isinstance(x, Host)]
    native = all(x.when is not None for x in hosts)
    if loops.symbols and not native:
        raise TraceError(
            f"while_loop: its turns have sizes that are dynamic ({', '.join(loops.symbols)}), and "
            "an op without loops (a factorization, a sort). Leave these sizes out of `dynamic`"
        )
    return native


def build(s: Scheduler, t: Term) -> list[Stmt]:
    """The loop; kernels before it bring together what it begins with."""
    (scheduler, loops), number = s.turns[t], len(s.kernels)
    given = [scheduler.views[x].buffer for x in scheduler.program.inputs]
    carries = s.outputs[t]
    begin: list[Stmt] = []
    for a, b in zip(t.args, carries, strict=False):
        s.forget()
        axes, at = s.counters(b.shape)
        value = s.exprs.cast(s.element(a, at), b.dtype)
        begin += s.nest(axes, [Store(b, whole(b).at(at), value)])
    s.kernels.append(Kernel(f"k{len(s.kernels)}_begin", tuple(begin)))
    consts = [s.contiguous(a) for a in t.args[len(carries) :]]
    inside = dict(zip(given, [*carries, *consts], strict=True))
    for b in loops.buffers:
        if b not in inside:
            inside[b] = s.memory(b.dtype, b.shape, b.label, b.role, b.value)
    once, each = _hoist(_renamed(loops, inside, number), carries)
    s.kernels += once
    return [While(carries[0], each)]


def _hoist(
    kernels: Sequence[Kernel], carries: Sequence[Buffer]
) -> tuple[list[Kernel], tuple[Kernel, ...]]:
    """The kernels of a turn that compute the same in each, which run before the loop; the rest.

    Such a kernel reads only what no turn writes, and alone writes its memory. One that says whether
    it failed is asked in each turn.
    """
    hosts = [s for k in single(kernels) for s in k.body if isinstance(s, Host)]
    asked = {*carries, *[s.when for s in hosts if s.when is not None]}
    writers = Counter([b for k in kernels for b in k.buffers()[1]])
    same = {b for k in kernels for b in k.buffers()[0] if not writers[b]}.difference(carries)
    once: list[Kernel] = []
    each: list[Kernel] = []
    for k in kernels:
        reads, writes = k.buffers()
        plain = not any(isinstance(x, Host | While) for x in k.body)
        alone = all(writers[b] == 1 and b.role == "scratch" for b in writes)
        known = same.issuperset({*reads} - {*writes}) and asked.isdisjoint(writes)
        if plain and alone and known:
            once.append(k)
            same.update(writes)
        else:
            each.append(k)
    return once, tuple(each)


def _renamed(loops: Loops, inside: dict[Buffer, Buffer], number: int) -> tuple[Kernel, ...]:
    """The kernels of a turn, which touch the buffers that stand for theirs."""
    renaming = Renaming(buffers=inside)
    return tuple(
        [_named(Kernel(k.name, renaming.body(k.body), k.about), number) for k in loops.kernels]
    )


def _named(k: Kernel, number: int) -> Kernel:
    """A kernel under a name of its own: `k3_k0_add` is the first in the loop k3."""
    body = tuple(
        [
            While(x.going, tuple([_named(y, number) for y in x.kernels]))
            if isinstance(x, While)
            else x
            for x in k.body
        ]
    )
    return Kernel(f"k{number}_{k.name}", body, k.about)


def told(body: Sequence[Stmt]) -> list[str]:
    """What the kernels of a turn say of their ops."""
    loops = [x for x in body if isinstance(x, While)]
    return [line for x in loops for k in single(x.kernels) for line in k.about]
