"""From a function and its arguments to what a traced run of it left, and to a compiled `Variant`.

Objects of the trace must be gone at its end: what is still there has leaked. So each step keeps
nodes and specs, and lets tensors go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from operator import attrgetter, is_
from typing import Any
from weakref import ref

import numpy as np

from chainrule.compile.graph.terms import Program
from chainrule.compile.trace.captured_state import Lift
from chainrule.compile.trace.graph_to_program import node_of
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.guards.observer import Observer
from chainrule.compile.trace.guards.places import Expected, Names, Reading
from chainrule.compile.trace.guards.random_state import refuse_draws
from chainrule.compile.trace.outcome import NUMBER, TENSOR, Outcome, State
from chainrule.compile.trace.scan_as_while import repeating, scan_as_loop
from chainrule.compile.trace.tracer import Tracer
from chainrule.compile.trace.variant import Variant
from chainrule.compile.trace.variant_assembly import Call, assemble, note_derivative
from chainrule.compile.trace.weak_numbers import weak_placeholder
from chainrule.engine.graph import is_recording, placeholder, trace_ops
from chainrule.engine.node import Node
from chainrule.engine.op import Spec
from chainrule.engine.tensors import Tensor
from chainrule.errors import DtypeError, TraceError, describe
from chainrule.transforms.replay import note_random_state
from chainrule.tree import flatten

_training = attrgetter("training")


def record(
    name: str, leaves: Sequence[Any], call: Call, make: Callable[[Program], Any] | None = None
) -> Variant:
    """Trace a function on placeholders for `leaves`; `call(given)` calls it with those instead.

    `make` makes of its program what runs it; by default that is native code.
    """
    tracer = Tracer(loop=scan_as_loop, repeat=repeating)
    tracer.notes = Notes(tracer.is_inner)
    left = Outcome()
    try:
        _run(tracer, left, leaves, call)
    finally:
        tracer.restore()
        tracer.arrays.forget()
        tracer.notes = None
    states = [State(lift) for lift in tracer.lifts]
    slots = [lift.grad for lift in tracer.lifts if lift.grad is not None]
    tracer.lifts.clear()
    variant = assemble(name, tracer, left, states, call, make)
    del left, states
    for slot in slots:
        slot.now = None
    _refuse_leaks(tracer, name)
    return variant


def _run(tracer: Tracer, left: Outcome, leaves: Sequence[Any], call: Call) -> None:
    """Run the function on placeholders, and note what it left."""
    given = [_placeholder(tracer, left, i, x) for i, x in enumerate(leaves)]
    before = {i: given[i].node for i, _ in left.args}
    with trace_ops(tracer), _modes_guarded(left):
        assert tracer.notes is not None
        observer = Observer(tracer.notes, call.roots)
        with note_random_state() as chance, observer.following():
            result = call(dict(enumerate(given)))
        refuse_draws(chance)
        left.guards = observer.finish()
        found, left.structure = flatten(result)
        tracer.arrays.check_done()
        for x in found:
            _refuse_value(x)
            tracer.arrays.check_read(x)
            left.results.append(_note_result(tracer, left, x))
        note_derivative(tracer, left)
        for i, node in before.items():
            if node.extra is not None and node.extra.grad is not None:
                raise TraceError(
                    f"a backward() inside a compiled function reaches leaf {i} of its arguments, "
                    "which requires a gradient: give it detached, let the function reach it by "
                    "itself, or use grad"
                )
            if tracer.origin(given[i].node) is not node:
                left.changed.append((i, given[i].node))
        for lift in list(tracer.lifts):
            _note_updates(tracer, left, lift)


def _refuse_value(x: Any) -> None:
    """A `Value` that is returned was found where nobody looked for one: it would stay as it is."""
    module = sys.modules.get("chainrule.scalar.value")
    if module is not None and isinstance(x, module.Value):
        raise TraceError(
            f"jit: the function returns {x!r}, but reaches no Value by a name, an attribute or an "
            "item (it may find them through a module of a module): let it find them by a name"
        )


def _placeholder(tracer: Tracer, left: Outcome, i: int, x: Any) -> Any:
    """What the function is given for leaf `i` of the arguments."""
    array: Any = x
    if isinstance(x, Tensor | np.ndarray | np.generic):
        if array.dtype.kind in "OSUMm":
            raise DtypeError(
                f"jit: an argument is an array of {array.dtype}, which holds no numbers"
            )
        needs = isinstance(x, Tensor) and x.requires_grad and is_recording()
        given = placeholder(array.shape, array.dtype, needs=needs)
        if isinstance(x, np.ndarray):
            tracer.arrays.add(given)
    elif type(x) is float or type(x) is complex:
        given = weak_placeholder(np.result_type(x))
        tracer.known_truths[given.node] = lambda: _truth_noted(left, i, bool(x))
    else:
        return x
    tracer.add_variable(given)  # so that it is missed if somebody keeps it
    left.args.append((i, given.node))
    return given


def _truth_noted(left: Outcome, i: int, truth: bool) -> bool:
    if (i, truth) not in left.truths:
        left.truths.append((i, truth))
    return truth


@contextmanager
def _modes_guarded(left: Outcome) -> Generator[None]:
    """Within it modules that are called are noted: the trace holds for their `training` only."""
    hooks = sys.modules.get("chainrule.nn.base.hooks")
    if hooks is None:  # nobody has a module
        yield
        return
    modes: dict[Any, bool] = {}

    def watcher(module: Any) -> Any:
        modes.setdefault(module, module.training)
        return nullcontext()

    with hooks.watching(watcher):
        yield
    if modes:
        left.guards.sources.append(_modes(hooks, modes))


def _modes(hooks: Any, modes: dict[Any, bool]) -> Names:
    """The place that says that the modules are in these modes: how often any was switched. They are
    looked at when that has changed."""
    modules, were = [ref(m) for m in modes], list(modes.values())
    held = hooks.switches

    def are_as_they_were(_: Any) -> bool:
        there = [m() for m in modules]
        return None not in there and all(map(is_, map(_training, there), were))

    reading = Reading("the mode of a module", "a call of it")
    names = hooks.__dict__
    return Names(names, {"switches": Expected(lambda: held, reading, are_as_they_were)})


def _note_result(tracer: Tracer, left: Outcome, x: Any) -> Any:
    """What is to be known of a leaf of the result."""
    if not isinstance(x, Tensor):
        return x
    tracer.touch(x)
    left.outs.append(node_of(x))
    return NUMBER if type(x.value) is Spec and x.value.weak else TENSOR


def _note_updates(tracer: Tracer, left: Outcome, lift: Lift) -> None:
    """Note the new values of a state tensor and of its gradient."""
    node = lift.tensor.node
    if tracer.origin(node) is not lift.leaf:
        left.updates[lift.leaf] = node
    slot = lift.grad
    if slot is None or not slot.set or slot.now is None:
        return
    tracer.touch(slot.now)
    node = node_of(slot.now)
    if slot.place is not None and tracer.origin(node) is slot.place:
        slot.set = False
        return
    place: Node = slot.place or placeholder(lift.spec.shape, lift.spec.dtype).node
    slot.place = place
    left.updates[place] = node


def _refuse_leaks(tracer: Tracer, name: str) -> None:
    leaked = tracer.leaked()
    if not leaked:
        return
    places = list(dict.fromkeys([v.node.where for v in leaked if v.node is not None]))
    raise TraceError(
        f"jit: {name} stores {describe(leaked[0].value)}, made at {', '.join(places[:3])}, where "
        "it outlives the call; but it has no values, it only stands for them while the function is "
        "traced. Return it, or keep it in a tensor that is there before: t.data = value"
    )
