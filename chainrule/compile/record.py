"""From a function and its arguments to a compiled `Variant`: trace, convert, build.

The steps follow each other in `record`. Objects of the trace must be gone at its end, so that what
is still there can be recognised as leaked: each step keeps nodes and specs, and lets tensors go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, final
from weakref import ref

import numpy as np

from chainrule.compile.backend import build
from chainrule.compile.convert import program, reached
from chainrule.compile.state import Draw, Held, HeldGrad, HeldNumber, Variant
from chainrule.compile.trace import GradSlot, Lift, Tracer, weak_placeholder
from chainrule.errors import DtypeError, TraceError, describe
from chainrule.graph import constant, placeholder, traced, variable
from chainrule.node import Node
from chainrule.op import Array, Spec
from chainrule.replay import noted
from chainrule.tensor import Tensor
from chainrule.tree import Structure, flatten


def record(f: Callable[..., Any], leaves: Sequence[Any], call: Callable[..., Any]) -> Variant:
    """Trace f on placeholders for `leaves`; `call(given)` calls it with those in their places."""
    tracer = Tracer()
    left = _Left()
    try:
        _run(tracer, left, leaves, call)
    finally:
        tracer.restore()
    states = [_State(lift) for lift in tracer.lifts]
    slots = [lift.grad.now for lift in tracer.lifts if lift.grad is not None]
    tracer.lifts.clear()
    variant = _compiled(tracer, left, states)
    del left, states
    _refuse_leaks(tracer, getattr(f, "__qualname__", repr(f)), {id(g) for g in slots})
    return variant


# --- What a run leaves ---------------------------------------------------------------------------


@final
@dataclass(eq=False)
class _Left:
    """What a traced run left: nodes, and what its result looks like."""

    args: list[tuple[int, Node]] = field(default_factory=list["tuple[int, Node]"])
    """The traced leaves of the arguments: which, and the node of its placeholder."""
    truths: list[tuple[int, bool]] = field(default_factory=list["tuple[int, bool]"])
    changed: list[tuple[int, Node]] = field(default_factory=list["tuple[int, Node]"])
    """The leaves of the arguments that were given new values, and the nodes of those."""
    updates: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """By the leaf of a state tensor, or its gradient, the node of its new value."""
    outs: list[Node] = field(default_factory=list[Node])
    results: list[Any] = field(default_factory=list[Any])
    """The leaves of the result, `_TENSOR` or `_NUMBER` in the places of those that are computed."""
    structure: Structure | None = None


_TENSOR: Any = object()
_NUMBER: Any = object()


def _run(tracer: Tracer, left: _Left, leaves: Sequence[Any], call: Callable[..., Any]) -> None:
    """Run the function on placeholders, and note what it left."""
    given = [_given(tracer, left, i, x) for i, x in enumerate(leaves)]
    before = {i: given[i].node for i, _ in left.args}
    with traced(tracer), _modes_guarded(tracer):
        with noted() as chance:
            result = call(given)
        if chance.python is not None or chance.numpy is not None:
            source = "random" if chance.python is not None else "numpy.random"
            raise TraceError(
                f"a compiled function draws from {source}: that would happen while it is traced, "
                "and never again. Draw from a chainrule Generator, or outside"
            )
        found, left.structure = flatten(result)
        for x in found:
            left.results.append(_noted(tracer, left, x))
        for i, node in before.items():
            if tracer.origin(given[i].node) is not node:
                left.changed.append((i, given[i].node))
        for lift in list(tracer.lifts):
            _note_updates(tracer, left, lift)


def _given(tracer: Tracer, left: _Left, i: int, x: Any) -> Any:
    """What the function is given for leaf `i` of the arguments."""
    array: Any = x
    if isinstance(x, Tensor | np.ndarray | np.generic):
        if array.dtype.kind in "OSUMm":
            raise DtypeError(
                f"jit: an argument is an array of {array.dtype}, which holds no numbers"
            )
        given = placeholder(array.shape, array.dtype)
    elif type(x) is float or type(x) is complex:
        given = weak_placeholder(np.result_type(x))
        tracer.known_truths[given.node] = lambda: _truth_noted(left, i, bool(x))
    else:
        return x
    left.args.append((i, given.node))
    return given


def _truth_noted(left: _Left, i: int, truth: bool) -> bool:
    if (i, truth) not in left.truths:
        left.truths.append((i, truth))
    return truth


@contextmanager
def _modes_guarded(tracer: Tracer) -> Generator[None]:
    """Within it modules that are called are noted: the trace holds for their `training` only."""
    hooks = sys.modules.get("chainrule.nn.hooks")
    if hooks is None:  # nobody has a module
        yield
        return
    modes: dict[Any, bool] = {}

    def watcher(module: Any) -> Any:
        modes.setdefault(module, module.training)
        return nullcontext()

    with hooks.watching(watcher):
        yield
    pairs = list(modes.items())
    if pairs:
        tracer.guards.append(lambda: all(m.training is mode for m, mode in pairs))


def _noted(tracer: Tracer, left: _Left, x: Any) -> Any:
    """What is to be known of a leaf of the result."""
    if not isinstance(x, Tensor):
        return x
    tracer.touch(x)
    left.outs.append(x.node if type(x.value) is Spec else constant(x.value))  # type: ignore[arg-type]
    return _NUMBER if type(x.value) is Spec and x.value.weak else _TENSOR


def _note_updates(tracer: Tracer, left: _Left, lift: Lift) -> None:
    """Note the new values of a state tensor and of its gradient."""
    node = lift.tensor.node
    if tracer.origin(node) is not lift.leaf:
        left.updates[lift.leaf] = node
    slot = lift.grad
    if slot is None or not slot.set or slot.now is None:
        return
    tracer.touch(slot.now)
    node = slot.now.node if type(slot.now.value) is Spec else constant(slot.now.value)
    if slot.place is not None and tracer.origin(node) is slot.place:
        slot.set = False
        return
    place: Node = slot.place or placeholder(lift.spec.shape, lift.spec.dtype).node
    slot.place = place
    left.updates[place] = node


@final
class _State:
    """A lifted tensor, which only others keep alive now."""

    def __init__(self, lift: Lift) -> None:
        self.tensor = ref(lift.tensor)
        self.spec = lift.spec
        self.value = lift.value
        self.node = lift.node
        self.leaf = lift.leaf
        self.slot: GradSlot | None = lift.grad


# --- From there to a variant ---------------------------------------------------------------------


def _compiled(tracer: Tracer, left: _Left, states: list[_State]) -> Variant:
    """The program of what was noted, and where its inputs come from."""
    for s in states:
        if s.tensor() is None:  # it was the function's own after all: a constant
            s.leaf.y = s.value
            left.updates.pop(s.leaf, None)
    states = [s for s in states if s.tensor() is not None]
    updates = {**{_arg(left, i): n for i, n in left.changed}, **left.updates}
    order = reached(tracer, [*left.outs, *updates.values()])
    used = {*order, *updates}
    args = [(i, n) for i, n in left.args if n in used]
    held = [s for s in states if s.leaf in used]
    grads = [s for s in states if s.slot is not None and (s.slot.set or s.slot.was_read)]
    slots = [n for s in grads if s.slot is not None and (n := s.slot.place) in used and n]
    numbers = [n for n in tracer.numbers if n.node in used or n.truth is not None]
    draws = [n for _, n in tracer.draws if n in used]
    places: list[Node] = [
        *[n for _, n in args], *[s.leaf for s in held], *slots,
        *[n.node for n in numbers], *draws,
    ]  # fmt: skip
    index = {n: k for k, n in enumerate(places)}
    run = build(
        program(tracer, order, places, left.outs, [(index[n], to) for n, to in updates.items()])
    )
    done = set(order)
    return Variant(
        run,
        [i for i, _ in args],
        [(i, index[_arg(left, i)]) for i, _ in left.changed],
        [Held(s.tensor, s.spec, s.node, s.leaf in updates) for s in held],
        [_held_grad(s, s.slot, done, updates) for s in grads if s.slot is not None],
        [HeldNumber(n.read, n.check, n.truth, np.zeros(())) for n in numbers],
        [Draw(take, n in used) for take, n in tracer.draws],
        tracer.guards,
        left.truths,
        _finish(left),
    )


def _arg(left: _Left, i: int) -> Node:
    return next(n for k, n in left.args if k == i)


def _held_grad(
    s: _State, slot: GradSlot, reached_: set[Node], updates: Mapping[Node, Node]
) -> HeldGrad:
    """What a call does with the gradient of a state tensor."""
    first = (slot.first is not None) if slot.was_read else None
    last = (slot.now is not None) if slot.set else None
    place = slot.place
    return HeldGrad(s.tensor, s.spec, first, last, read=place in reached_, written=place in updates)


def _finish(left: _Left) -> Callable[[list[Array]], Any]:
    """From the arrays of the results to what the function returns."""
    results, structure = left.results, left.structure
    assert structure is not None
    if structure.kind is None and results[0] is _TENSOR:
        return lambda arrays: variable(arrays[0])

    def finish(arrays: list[Array]) -> Any:
        rest = iter(arrays)
        return structure.unflatten(
            [
                variable(next(rest)) if x is _TENSOR else next(rest).item() if x is _NUMBER else x
                for x in results
            ]
        )

    return finish


def _refuse_leaks(tracer: Tracer, name: str, allowed: set[int]) -> None:
    leaked = tracer.leaked(allowed)
    if not leaked:
        return
    places = list(dict.fromkeys([v.node.where for v in leaked if v.node is not None]))
    raise TraceError(
        f"jit: {name} stores {describe(leaked[0].value)}, made at {', '.join(places[:3])}, where "
        "it outlives the call; but it has no values, it only stands for them while the function is "
        "traced. Return it, or keep it in a tensor that is there before: t.data = value"
    )
