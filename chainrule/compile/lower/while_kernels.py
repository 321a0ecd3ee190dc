"""Loops of unknown length: the kernels of a turn, on memory of the program around it.

The carries of a loop lie where its results are: they are copied there first, and each turn updates
them in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.rewrite import Renaming
from chainrule.compile.loops.statements import Host, Kernel, Loops, Stmt, While, single
from chainrule.compile.lower.builder import Builder
from chainrule.compile.lower.plan import Plan


def loop(plan: Plan, builder: Builder, t: Term, body: Plan, loops: Loops) -> list[Stmt]:
    """The loop `t`, an iteration of which has the plan `body` and the kernels of `loops`; kernels
    before it bring together what it begins with."""
    number, carries = len(builder.kernels), plan.memory.outputs[t]
    begin = [s for a, b in zip(t.args, carries, strict=False) for s in builder.copy(a, b)]
    builder.kernel("begin", begin)
    consts = [builder.contiguous(a) for a in t.args[len(carries) :]]
    inside = dict(zip(body.inputs, [*carries, *consts], strict=True))
    for b in loops.buffers:
        if b not in inside:
            inside[b] = builder.memory(b.dtype, b.shape, b.label, b.role, b.value)
    once, each = _hoist(_renamed(loops, inside, number), carries)
    builder.kernels += once
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


def about(body: Sequence[Stmt]) -> list[str]:
    """What the kernels of iterations compute."""
    loops = [x for x in body if isinstance(x, While)]
    return [line for x in loops for k in single(x.kernels) for line in k.about]
