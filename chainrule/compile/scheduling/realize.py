"""Which terms get memory of their own, where their elements lie, and in what order they come.

A map that is used once, or is cheap, is computed where it is used; views are never computed. Where
a realized term lies is wished for by its users: a part of an array that is put together is computed
into its place, and a term that is to be reshaped after its axes were exchanged is laid out so that
the reshape is a view.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from chainrule.compile.loops import views
from chainrule.compile.loops.language import Buffer, strides_of
from chainrule.compile.loops.views import View, is_view, placed_before, source
from chainrule.compile.scheduling.lower import in_loops, is_map, reduction
from chainrule.compile.scheduling.places import READS
from chainrule.compile.terms.sizes import Extent, product, typical
from chainrule.compile.terms.terms import Program, Term, in_order
from chainrule.compile.terms.turns import Keep
from chainrule.op import Pick
from chainrule.ops.contraction import MatMul
from chainrule.ops.families import Elementwise
from chainrule.ops.selection import Where
from chainrule.ops.shaping import Astype, Concat, Reshape

_CHEAP = {
    "add", "sub", "mul", "neg", "positive", "relu", "square", "abs", "maximum", "minimum", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "at_least", "at_most", "strong_mul", "sign", "isnan", "isfinite", "isinf",
}  # fmt: skip
_SLOW = 8
LARGE = 64
"""How much work an expression may be: beyond it, what it is computed from has a name of its own."""


def is_product(t: Term) -> bool:
    """Whether `t` is a matrix product of real numbers."""
    return isinstance(t.op, MatMul) and t.dtype.kind == "f" and in_loops(t)


def is_computed(t: Term) -> bool:
    """Whether `t` is neither given nor a view."""
    return t.op is not None and not is_view(t)


def space(t: Term) -> tuple[Extent, ...]:
    """The sizes over which `t` is computed."""
    return t.args[0].shape if reduction(t) is not None else t.shape


@final
@dataclass(frozen=True, slots=True)
class Root:
    """A result, or the new value of the input `given`: a term that is computed to where it is
    wanted, an array of `shape`, of which it is a view with these strides."""

    term: Term
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    given: Term | None


def roots_of(program: Program, apart: Set[Term]) -> list[Root]:
    """The roots, each computed, each once: what is not is copied; and so is what becomes one of
    the inputs `apart`, whose parts cannot be computed in place."""
    taken: set[Term] = set()
    roots: list[Root] = []
    inputs: list[Term | None] = [None] * len(program.results)
    inputs += [program.inputs[place] for place, _ in program.updates]
    for t, given in zip(program.roots, inputs, strict=True):
        x, strides = t, placed_at_source(t, strides_of(t.shape))
        if strides is not None:
            x = source(t)
        fresh = is_computed(x) and x not in taken and not isinstance(x.op, Pick)
        if strides is None or not fresh or given in apart:
            x = Term(Astype(t.dtype), (t,), t.shape, t.dtype, None, None, t.code, t.at)
            strides = strides_of(t.shape)
        taken.add(x)
        roots.append(Root(x, t.shape, strides, given))
    return roots


def placed_at_source(t: Term, strides: tuple[Extent, ...]) -> tuple[Extent, ...] | None:
    """The strides that the source of the view `t` must have for `t` to have `strides`."""
    found: tuple[Extent, ...] | None = strides
    while is_view(t) and found is not None:
        found, t = placed_before(t, found), t.args[0]
    return found if found is None or can_have(t, found) else None


def can_have(t: Term, strides: Sequence[Extent]) -> bool:
    """Whether `t` can be computed to where it has such strides: BLAS wants one of 1."""
    return not is_product(t) or 1 in strides[-2:]


def copied(program: Program, shown: set[Term]) -> Program:
    """The program in which the arguments of the terms `shown` are copied first."""
    new: dict[Term, Term] = {}
    for t in in_order(program.roots):
        args = tuple([new[a] for a in t.args])
        if t in shown:
            (a,) = args
            args = (Term(Astype(a.dtype), (a,), a.shape, a.dtype, None, None, t.code, t.at),)
        same = all(a is b for a, b in zip(args, t.args, strict=True))
        new[t] = t if same else replace(t, args=args)
    return Program(
        program.inputs,
        tuple([new[t] for t in program.results]),
        tuple([(i, new[t]) for i, t in program.updates]),
    )


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


def work(t: Term, held: set[Term], known: dict[Term, int]) -> int:
    """Roughly how many instructions an element of the map `t` takes where it is inlined, with the
    arguments that are inlined into it, whose work is `known`."""
    own = 1
    if isinstance(t.op, Elementwise) and t.op.label not in _CHEAP:
        own = _SLOW
    return own + sum([known.get(source(a), 0) for a in t.args if source(a) not in held])


def to_realize(order: list[Term], roots: Iterable[Term], uses: dict[Term, list[Term]]) -> set[Term]:
    """The terms that get memory."""
    held: set[Term] = set(roots)
    needed: set[Term] = set()
    for t in order:
        if is_product(t) or (is_computed(t) and not is_map(t) and reduction(t) is None):
            needed |= {source(a) for a in t.args}
        if isinstance(t.op, READS):
            needed.add(source(t.args[0]))
        if isinstance(t.op, Concat) and is_map(t):
            needed |= {t, *[source(a) for a in t.args]}
        if isinstance(t.op, Reshape) and is_hard(t):
            needed.add(source(t))
    known: dict[Term, int] = {}
    for t in order:
        if not is_computed(t):
            continue
        if t in held or not is_map(t) or t in needed:
            held.add(t)
            continue
        readers = uses.get(t, [])
        cost = known[t] = work(t, held, known)
        repeated = any(typical(product(space(u))) > typical(product(t.shape)) for u in readers)
        if (repeated and cost) or (len(readers) > 1 and cost > 2) or cost > LARGE:
            held.add(t)
    return held


def is_hard(t: Term) -> bool:
    """Whether an index of the reshape's argument takes a division."""
    groups = views.matched(t.shape, t.args[0].shape)
    return groups is None or any(len(old) > 1 for _, old in groups)


def layouts(order: list[Term], held: set[Term]) -> dict[Term, tuple[Extent, ...]]:
    """Strides that terms should have so that reshapes of them are views."""
    wish: dict[Term, tuple[Extent, ...]] = {}
    for t in reversed(order):
        if not (isinstance(t.op, Reshape) and is_hard(t)):
            continue
        x, strides = t.args[0], strides_of(t.args[0].shape)
        if isinstance(x.op, Astype) and x in held:
            continue
        while is_view(x):
            before = views.placed_before(x, strides)
            if before is None:
                break
            x, strides = x.args[0], before
        if x in held and x not in wish and is_computed(x) and can_have(x, strides):
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


@final
@dataclass(frozen=True, slots=True)
class Read:
    """What a term reads of an input's memory: elements of `view`, from `start` to before `end`.

    `plain`: each element is read only for the element of the term at the same place.
    """

    view: View
    start: int | None
    end: int
    plain: bool

    def meets(self, other: Read) -> bool:
        """Whether both may touch the same element."""
        if self.view.buffer is not other.view.buffer:
            return False
        if self.start is None or other.start is None:
            return True
        return self.start < other.end and other.start < self.end


def touched(view: View, shape: Sequence[Extent], *, plain: bool) -> Read:
    """The elements of an array of `shape` at `view`."""
    last: Extent = view.offset
    first: Extent = view.offset
    for n, stride in zip(shape, view.strides, strict=True):
        reach = (n - 1) * stride
        if not isinstance(reach, int) or reach >= 0:
            last = reach + last
        else:
            first = reach + first
    if isinstance(first, int) and isinstance(last, int):
        return Read(view, first, last + 1, plain)
    return Read(view, None, 0, plain)


def reads_at(t: Term, held: set[Term], at: Mapping[Term, View]) -> list[Read]:
    """Which memory of inputs computing `t` reads."""
    out: list[Read] = []
    stack: list[tuple[Term, bool]] = [(a, is_plain(t, a)) for a in t.args]
    while stack:
        a, plain = stack.pop()
        x = source(a)
        if x.index is not None:
            out.append(_read(a, at[x], plain))
        elif x.op is not None and x not in held:
            stack += [(b, plain and a is x and is_plain(x, b)) for b in x.args]
    return out


def _read(a: Term, view: View, plain: bool) -> Read:
    """Reading the chain of views `a` of what lies at `view`."""
    chain: list[Term] = []
    while is_view(a):
        chain.append(a)
        a = a.args[0]
    shape = a.shape
    for v in reversed(chain):
        through = views.seen_through(v, view)
        if through is None:
            return touched(view, shape, plain=False)
        view, shape = through, v.shape
    return touched(view, shape, plain=plain)


def is_plain(t: Term, a: Term) -> bool:
    """Whether each element of the map `t` is computed from the element of `a` at the same place;
    those of a tape stay there, but for a row."""
    if isinstance(t.op, Keep):
        return a is t.args[0]
    return isinstance(t.op, Elementwise | Where | Astype) and a.shape == t.shape


def part_views(t: Term, view: View, held: set[Term]) -> dict[Term, View]:
    """Where the parts of the concatenation `t`, which lies at `view`, are to be computed.

    A part that is none of our own (an input, say), or is shown in a way that cannot be undone, is
    not among them: it will be copied.
    """
    out: dict[Term, View] = {}
    axis: int = t.op.axis
    start: Extent = 0
    for a in t.args:
        offset, x = start * view.strides[axis] + view.offset, source(a)
        start = a.shape[axis] + start
        strides = placed_at_source(a, view.strides)
        if strides is None or x not in held or x in out or x.dtype != t.dtype:
            continue
        if not (is_map(x) or is_product(x) or reduction(x) is not None):
            continue
        out[x] = View(view.buffer, offset, strides)
    return out


def ordered(
    roots: list[Term],
    reads: dict[Term, list[Term]],
    waits: Mapping[Term, list[Term]],
) -> tuple[list[Term], dict[Term, list[Term]], set[Term]]:
    """The realized terms in an order in which a term comes after those that it `waits` for; for
    whom each term waits; and the terms for which there is no such order.
    """
    readers: dict[Term, list[Term]] = {}
    for t, xs in reads.items():
        for x in xs:
            readers.setdefault(x, []).append(t)
    before: dict[Term, list[Term]] = {}
    late: set[Term] = set()
    for t, others in waits.items():
        after = _reach(t, readers) if others else set[Term]()
        if t in others or any(r in after for r in others):
            late.add(t)
        else:
            before[t] = others
    while True:
        order, stuck = _sorted(roots, reads, before)
        if stuck is None:
            return order, before, late
        late.add(stuck)
        del before[stuck]


def numbers_first(
    order: list[Term], reads: dict[Term, list[Term]], before: dict[Term, list[Term]]
) -> list[Term]:
    """The same order, but single numbers that depend on nothing but inputs and each other (an
    optimizer's step size, say) come first: who needs one can then run with what came before."""
    first: dict[Term, None] = {}
    for t in order:
        single = not t.many and all(n == 1 for n in t.shape)
        known = all(x.op is None or x in first for x in reads[t])
        if single and known and all(x in first for x in before.get(t, [])):
            first[t] = None
    return [*first, *[t for t in order if t not in first]]


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
