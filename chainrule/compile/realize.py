"""Which terms get memory of their own, where their elements lie, and in what order they come.

A map that is used once, or is cheap, is computed where it is used; views are never computed. Where a
realized term lies is wished for by its users: a part of an array that is put together is computed
into its place, and a term that is to be reshaped after its axes were exchanged is laid out so that
the reshape is a view.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from chainrule.compile import views
from chainrule.compile.loops import Buffer, strides_of
from chainrule.compile.lower import is_map, reduction
from chainrule.compile.sizes import Extent, product, typical
from chainrule.compile.terms import Program, Term
from chainrule.compile.views import is_view, source
from chainrule.op import Pick
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import Elementwise
from chainrule.ops.selection import Take, TakeAdd, TakeAlong, TakeAlongAdd
from chainrule.ops.shaping import Astype, Reshape

_CHEAP = {
    "add", "sub", "mul", "neg", "positive", "relu", "square", "abs", "maximum", "minimum", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "at_least", "at_most", "strong_mul", "sign", "isnan", "isfinite", "isinf",
}  # fmt: skip
_SLOW = 8


def is_product(t: Term) -> bool:
    """Whether `t` is a matrix product of real numbers."""
    return isinstance(t.op, MatMul) and t.dtype.kind == "f"


def is_scatter(t: Term) -> bool:
    """Whether elements of `t`'s argument are added to places that indices name."""
    return isinstance(t.op, TakeAdd | TakeAlongAdd) and not is_map(t)


def is_computed(t: Term) -> bool:
    """Whether `t` is neither given nor a view."""
    return t.op is not None and not is_view(t)


def space(t: Term) -> tuple[Extent, ...]:
    """The sizes over which `t` is computed."""
    return t.args[0].shape if reduction(t) is not None else t.shape


def with_copies(program: Program) -> tuple[list[Term], dict[Term, Term]]:
    """Roots that are computed and are roots once; and which input each of them becomes."""
    taken: set[Term] = set()
    roots: list[Term] = []
    becomes: dict[Term, Term] = {}
    count = len(program.results)
    for n, t in enumerate(program.roots):
        fresh = is_computed(t) and t not in taken and not isinstance(t.op, Pick)
        if not fresh:
            t = Term(Astype(t.dtype), (t,), t.shape, t.dtype, None, None, t.code, t.at)
        taken.add(t)
        roots.append(t)
        if n >= count:
            becomes[t] = program.inputs[program.updates[n - count][0]]
    return roots, becomes


def users(order: Iterable[Term]) -> dict[Term, list[Term]]:
    """By term that is no view: the terms that read it, directly or through views."""
    out: dict[Term, list[Term]] = {}
    for t in order:
        if is_computed(t):
            for a in t.args:
                found = out.setdefault(source(a), [])
                if t not in found:
                    found.append(t)
    return out


def work(t: Term, held: set[Term]) -> int:
    """Roughly how many instructions an element of the map `t` takes where it is inlined."""
    if t.op is None or source(t) in held:
        return 0
    if is_view(t):
        return work(source(t), held)
    if not is_map(t):
        return 0
    own = 1
    if isinstance(t.op, Elementwise) and t.op.label not in _CHEAP:
        own = _SLOW
    return own + sum([work(a, held) for a in t.args])


def to_realize(order: list[Term], roots: Iterable[Term], uses: dict[Term, list[Term]]) -> set[Term]:
    """The terms that get memory."""
    held: set[Term] = set(roots)
    needed: set[Term] = set()
    for t in order:
        if (
            is_product(t)
            or is_scatter(t)
            or (is_computed(t) and not is_map(t) and reduction(t) is None)
        ):
            needed |= {source(a) for a in t.args}
        if isinstance(t.op, Take | TakeAlong):
            needed.add(source(t.args[0]))
        if isinstance(t.op, Reshape) and _is_hard(t):
            needed.add(source(t))
    for t in order:
        if not is_computed(t):
            continue
        if t in held or not is_map(t) or t in needed:
            held.add(t)
            continue
        readers = uses.get(t, [])
        cost = work(t, held)
        repeated = any(typical(product(space(u))) > typical(product(t.shape)) for u in readers)
        if (repeated and cost) or (len(readers) > 1 and cost > 2):
            held.add(t)
    return held


def _is_hard(t: Term) -> bool:
    """Whether an index of the reshape's argument takes a division."""
    groups = views.matched(t.shape, t.args[0].shape)
    return groups is None or any(len(old) > 1 for _, old in groups)


def layouts(order: list[Term], held: set[Term]) -> dict[Term, tuple[Extent, ...]]:
    """Strides that terms should have so that reshapes of them are views."""
    wish: dict[Term, tuple[Extent, ...]] = {}
    for t in reversed(order):
        if not (isinstance(t.op, Reshape) and _is_hard(t)):
            continue
        x, strides = t.args[0], strides_of(t.args[0].shape)
        while is_view(x):
            before = views.placed_before(x, strides)
            if before is None:
                break
            x, strides = x.args[0], before
        if x in held and x not in wish and is_computed(x):
            wish[x] = strides
    return wish


def is_dense(strides: tuple[Extent, ...], shape: tuple[Extent, ...]) -> bool:
    """Whether the strides are those of a contiguous array with its axes in some order."""
    step: Extent = 1
    for axis in sorted(range(len(shape)), key=lambda a: typical(strides[a])):
        if shape[axis] == 1:
            continue
        if strides[axis] != step:
            return False
        step = shape[axis] * step
    return True


def constant_buffer(t: Term, number: int) -> Buffer:
    """Memory for an array that is known."""
    return Buffer(f"c{number}", t.dtype, t.shape, "constant", np.asarray(t.value))


def read_by(t: Term, held: set[Term]) -> list[Term]:
    """The inputs, constants and realized terms that computing `t` reads: through views and maps."""
    found: dict[Term, None] = {}
    stack = list(reversed(t.args))
    while stack:
        x = source(stack.pop())
        if x.op is None or x in held:
            found[x] = None
        else:
            stack += reversed(x.args)
    return list(found)


def ordered(
    roots: list[Term], reads: dict[Term, list[Term]], becomes: dict[Term, Term]
) -> tuple[list[Term], dict[Term, list[Term]], set[Term]]:
    """The realized terms in an order in which all who read an input come before it is overwritten;
    by overwriting term, who these are; and the terms of `becomes` for which there is no such order.
    """
    readers: dict[Term, list[Term]] = {}
    for t, xs in reads.items():
        for x in xs:
            readers.setdefault(x, []).append(t)
    before: dict[Term, list[Term]] = {}
    late: set[Term] = set()
    for t, given in becomes.items():
        waits = [r for r in readers.get(given, []) if r is not t]
        after = _reach(t, readers)
        if any(r in after for r in waits):
            late.add(t)
        else:
            before[t] = waits
    while True:
        order, stuck = _sorted(roots, reads, before)
        if stuck is None:
            return order, before, late
        late.add(stuck)
        del before[stuck]


def _reach(t: Term, readers: dict[Term, list[Term]]) -> set[Term]:
    found: set[Term] = set()
    stack = list(readers.get(t, []))
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += readers.get(x, [])
    return found


def _sorted(
    roots: list[Term], reads: dict[Term, list[Term]], before: dict[Term, list[Term]]
) -> tuple[list[Term], Term | None]:
    """Depth first; a term of `before` that would have to wait for itself is given back instead."""
    done: dict[Term, None] = {}
    path: set[Term] = set()
    stack: list[tuple[Term, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        t, ready = stack.pop()
        if t in done:
            continue
        if ready:
            path.discard(t)
            done[t] = None
            continue
        if t in path:
            continue
        path.add(t)
        stack.append((t, True))
        first = [a for a in before.get(t, []) if a not in done]
        loop = [a for a in [*first, *reads[t]] if a in path]
        if loop:
            waiting = [x for x in path if before.get(x)]
            return [], waiting[-1] if t not in before else t
        nexts = [*first, *[a for a in reads[t] if a.op is not None and a not in done]]
        stack += [(a, False) for a in reversed(nexts)]
    return list(done), None
