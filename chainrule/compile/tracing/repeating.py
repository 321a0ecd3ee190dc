"""`while_loop` as one op of a compiled function: its turn is a program, traced once.

The program is closed: whatever a turn reads from around it is an input. So its derivative along
tangents, and the same loop for many examples, are made by running the program once more, on
placeholders, and each is again such an op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from chainrule.compile.running.backend import build_unchecked
from chainrule.compile.terms.terms import Program, Term, Terms
from chainrule.compile.terms.turns import Turns, depending, once, replayed
from chainrule.compile.tracing.convert import reached
from chainrule.compile.tracing.looping import Before, Scope
from chainrule.compile.tracing.trace import Tracer
from chainrule.derive import pushforward_nodes
from chainrule.dtypes import INEXACT
from chainrule.errors import TraceError, describe
from chainrule.graph import (
    apply,
    constant,
    is_recording,
    leaf,
    order,
    placeholder,
    tracer,
    variable,
)
from chainrule.node import Node, Variable
from chainrule.op import Detach, Need, Op, Spec, new_op
from chainrule.ops import elementwise as ew
from chainrule.ops.batching import Batched, batch
from chainrule.ops.families import broadcast_to
from chainrule.ops.reduction import Found
from chainrule.ops.selection import Where
from chainrule.ops.shaping import reshape


class While(Op):
    """All turns of a `while_loop`: the carries when it ends."""

    turns: Turns
    many: ClassVar[bool] = True
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`while_loop`."""
        return "while_loop"

    def eval(self, *xs: Any) -> Any:
        """The last carries; each turn is a call."""
        arrays = [np.array(a, order="C") for a in xs]  # the program writes into these
        while arrays[0]:
            self.turns.run(build_unchecked, arrays)
        return tuple(arrays[: self.turns.carries])

    def spec(self, *xs: Any) -> Any:
        """Those of the carries."""
        return self.turns.specs()

    def reads(self, i: int) -> tuple[int, ...]:
        """All inputs: the loop is run again."""
        return tuple(range(1, 1 + len(self.turns.program.inputs)))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> NoReturn:
        """There is none in a compiled function."""
        raise TraceError(
            "while_loop: reverse mode through a loop of unknown length needs the values of every "
            "turn, and a compiled function has no memory for as many as there may be. Use scan "
            "with a fixed length, forward mode (jvp, or jacobian with mode='forward'), detach the "
            "result, or call the function without jit"
        )

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangents of the carries: a loop that carries them along."""
        n = self.turns.carries
        if self.turns.inlined:
            raise TraceError(
                "while_loop: forward mode through a turn that calls a Function, whose derivative "
                "is written for reverse mode. Write the turn with ops"
            )
        wide, moved = _widened(self, [t is not None for t in ts])
        heads, rest = [i for i in moved if i < n], [i for i in moved if i >= n]
        zeros = {i: np.zeros(s.shape, s.dtype) for i, s in enumerate(self.turns.specs())}
        dots = [zeros[i] if ts[i] is None else ts[i] for i in heads]
        ends = apply(wide, *xs[:n], *dots, *xs[n:], *[ts[i] for i in rest])
        found = dict(zip(heads, ends[n:], strict=True))
        return tuple([found[i] if i in found else variable(zeros[i]) for i in range(n)])


def repeated(
    tracer: Tracer, turn: Callable[[list[Any]], tuple[Any, list[Any]]], going: Any, state: list[Any]
) -> list[Any]:
    """The last state of a loop, as results of one op; `turn` gives whether it goes on, and the new
    state."""
    before = Before.of(tracer)
    start = _now()
    given = [_place(s.shape, s.dtype) for s in (going, *state)]
    more, new = turn(given[1:])
    _refuse_effects(tracer, before)
    news = [_node(x) for x in (more, *new)]
    before.back(tracer)
    turns, consts = _closed(tracer, start, [x.node for x in given], news)
    op = new_op(While, turns)
    outside = [variable(Spec(n.shape, n.dtype), n) for n in consts]
    return list(apply(op, going, *state, *outside)[1:])


def _refuse_effects(tracer: Tracer, before: Before) -> None:
    """An error for what a turn does besides giving a new state."""
    if len(tracer.draws) != before.draws:
        raise TraceError(
            "while_loop: a turn draws random numbers, and how many all turns draw is not known "
            "before a compiled call. Draw what it needs outside, or use scan"
        )
    for lift, node in before.pairs(tracer):
        slot = lift.grad
        if lift.tensor.node is not node or (slot is not None and slot.set):
            raise TraceError(
                f"while_loop: a turn changes {describe(lift.value)}, which it reaches by itself, "
                "or its gradient. Make it a part of the state, or use scan"
            )


# --- closed programs -----------------------------------------------------------------------------


def _now() -> int:
    """A number between those of nodes that there are and those that will be."""
    return leaf((), np.dtype(bool), needs=False).serial


def _place(shape: Any, dtype: Any) -> Any:
    return placeholder(shape, dtype, needs=dtype.kind in INEXACT and is_recording())


def _node(x: Any) -> Node:
    return x.node if getattr(x, "value", x).__class__ is Spec else constant(_plain(x))


def _plain(x: Any) -> Any:
    return np.asarray(getattr(x, "value", x))


def _closed(
    tracer: Tracer, start: int, places: Sequence[Node], news: Sequence[Node]
) -> tuple[Turns, list[Node]]:
    """What was recorded since `start` as turns from `places` to `news`; and the nodes from around
    it that it reads, which are its last inputs."""
    scope = Scope(tracer, start, set(places), keeping=True)
    walk = reached(scope, news)
    consts = scope.consts(walk)
    terms = Terms()
    every = [*places, *consts]
    known = {n: terms.input(i, n.shape, n.dtype) for i, n in enumerate(every)}
    for node in walk:
        if node not in known:
            known[node] = _term(terms, scope, node, known)
    ins = tuple([known[n] for n in every])
    outs = [known[scope.origin(n)] for n in news]
    updates = [(i, t) for i, t in enumerate(outs) if t is not ins[i]]
    program = once(Program(ins, (), tuple(updates)))
    return Turns(program, len(news), scope.inlined), consts


def _term(terms: Terms, scope: Scope, node: Node, known: dict[Node, Term]) -> Term:
    """The term of a node; where nothing was to be recorded, it has no derivative."""
    if node.op is None:
        return terms.constant(node.y)
    pairs = zip(node.inputs, node.xs, strict=True)
    args = [
        known[scope.origin(n)]
        if n is not None and isinstance(x, Spec | Node)
        else terms.constant(x)
        for n, x in pairs
    ]
    made = terms.op(node.op, args, like=node)  # type: ignore[arg-type]
    cut = not node.op.many and node.dtype.kind in INEXACT and not node.needs
    return terms.op(Detach(), [made]) if cut and any(map(_is_live, node.inputs)) else made


def _is_live(node: Node | None) -> bool:
    """Whether a derivative could come this way, had it been recorded."""
    if node is None:
        return False
    several = node.op is not None and node.op.many
    return node.needs or (several and any(map(_is_live, node.inputs)))


def _run(t: Term, args: list[Any]) -> Any:
    return apply(t.op, *args)


# --- the same loop with tangents -----------------------------------------------------------------


def _widened(op: While, moved: Sequence[bool]) -> tuple[While, list[int]]:
    """The loop that carries tangents, too; `moved` says which inputs have one. And the inputs that
    have one in some turn: of those, tangents of carries follow the carries, others come last."""
    turns, t = op.turns, tracer()
    n, start, active = turns.carries, _now(), {i for i, m in enumerate(moved) if m}
    xs = [_place(x.shape, x.dtype) for x in turns.program.inputs]
    new = replayed(turns.after(), dict(zip(turns.program.inputs, xs, strict=True)), _run)
    while True:
        dots = {i: placeholder(xs[i].shape, xs[i].dtype) for i in sorted(active)}
        ends = [x.node for x in new if isinstance(x, Variable) and x.node and x.node.needs]
        walk = order(ends, [x.node for x in xs])
        got = pushforward_nodes(walk, {xs[i].node: d for i, d in dots.items()}, record=True)
        news = {i: got.get(_node(x)) for i, x in enumerate(new)}
        more = {i for i, d in news.items() if d is not None} - active
        if not more:
            break
        active |= more
    heads, rest = [i for i in dots if i < n], [i for i in dots if i >= n]
    places = [*xs[:n], *[dots[i] for i in heads], *xs[n:], *[dots[i] for i in rest]]
    zeros = [np.zeros(xs[i].shape, xs[i].dtype) for i in heads]
    after = [news[i] if news[i] is not None else z for i, z in zip(heads, zeros, strict=True)]
    outs = [_node(x) for x in (*new, *after)]
    made, _ = _closed(t, start, [x.node for x in places], outs)
    return new_op(While, replace(made, extends=turns)), list(dots)


# --- the same loop for many examples -------------------------------------------------------------


@batch.register
def _(op: While, xs: Sequence[Any], batched: Batched, size: int) -> Any:
    """One loop for all examples. Where they differ in how long they go on, it goes on while any
    does, and those that are done keep their state."""
    turns = op.turns
    flags, own = _spread(turns, batched)
    wide = [
        broadcast_to(x, (size, *x.shape)) if f and not b else x
        for x, f, b in zip(xs, flags, batched, strict=True)
    ]
    start, t = _now(), tracer()
    places = [_place(x.shape, x.dtype) for x in wide]
    known: dict[Term, Any] = dict(zip(turns.program.inputs, places, strict=True))
    marked = {i for i, f in zip(turns.program.inputs, flags, strict=True) if f}
    found = depending(turns.after(), marked)

    def run(t: Term, args: list[Any]) -> Any:
        return (
            batch(t.op, args, [a in found for a in t.args], size) if t in found else _run(t, args)
        )

    new = replayed(turns.after(), known, run)
    pairs = list(zip(turns.after(), new, flags, strict=False))
    new = [broadcast_to(x, (size, *x.shape)) if f and a not in found else x for a, x, f in pairs]
    if own:
        any_of = Found("any", (0,), False)
        going = places[0]
        new = [apply(ew.logical_and, going, new[0])] + [
            apply(Where(), _beside(going, old), x, old)
            for x, old in zip(new[1:], places[1:], strict=False)
        ]
        some = _place((), np.dtype(bool))
        places, new = [some, *places], [apply(any_of, new[0]), *new]
        wide = [apply(any_of, wide[0]), *wide]
    nodes = [_node(x) for x in new]
    made, _ = _closed(t, start, [p.node for p in places], nodes)
    same = turns.extends if not any(flags[: _shared(turns)]) else None
    made = replace(made, inlined=turns.inlined, extends=same)
    ends = apply(new_op(While, made), *wide)[own:]
    return tuple(
        [y if f else broadcast_to(y, (size, *y.shape)) for y, f in zip(ends, flags, strict=False)]
    )


def _shared(turns: Turns) -> int:
    """How many carries are those of the loop that this one extends."""
    return turns.extends.carries if turns.extends is not None else 0


def _beside(going: Any, x: Any) -> Any:
    """One bool for each example beside arrays with more axes."""
    return reshape(going, (going.shape[0], *[1] * (len(x.shape) - 1)))


def _spread(turns: Turns, batched: Sequence[bool]) -> tuple[list[bool], bool]:
    """Which inputs differ between examples in some turn, and whether the number of turns does."""
    flags = list(batched)
    while True:
        if flags[0]:  # then each carry is what it was when its example ended
            flags[: turns.carries] = [True] * turns.carries
        marked = {t for t, f in zip(turns.program.inputs, flags, strict=True) if f}
        found = depending(turns.after(), marked)
        more = [f or t in found for f, t in zip(flags, turns.after(), strict=False)]
        if more == flags[: turns.carries]:
            return flags, flags[0]
        flags[: turns.carries] = more
