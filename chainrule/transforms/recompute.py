"""What a checkpointed function leaves in the graph: one op, whose rules run the function again.

The second run must give the first one's results, bit for bit, and reach the same parameters; what
differs is a `GradientError` with the line of the call.

Notation: a place is a node of the second run's graph in which cotangents of an input arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from chainrule.engine.derive import pullback_nodes, pushforward_nodes
from chainrule.engine.graph import (
    Around,
    Node,
    Variable,
    alias,
    around,
    intercept_ops,
    is_recording,
    leaf,
    order,
    recording,
    variable,
)
from chainrule.engine.op import Need, Op, Spec
from chainrule.engine.provenance import location
from chainrule.errors import GradientError
from chainrule.ops.eager_kernels import fusing
from chainrule.ops.families import conj
from chainrule.transforms.replay import (
    Chance,
    Keep,
    SecondRun,
    Snapshot,
    replay_random_state,
)
from chainrule.tree import Structure, flatten


def _name(f: Any) -> str:
    return getattr(f, "__qualname__", None) or type(f).__name__


@dataclass(eq=False)
class CheckpointedCall:
    """What is known of one call of f, but for the values that its node keeps."""

    f: Callable[..., Any]
    rest: list[Any]
    """The leaves of the arguments, None where `at` says that there was a tensor."""
    structure: Structure
    at: list[int]
    needs: list[bool]
    """For each tensor among the arguments, whether it needed a gradient."""
    source: tuple[Any, int]
    around: Around
    keep: Keep | None
    fused: bool
    """Whether composites could run as kernels."""
    chance: Chance = field(default_factory=Chance)
    captured: list[Node] = field(default_factory=list[Node])
    """What f reached by itself."""
    first_result: list[Snapshot] = field(default_factory=list[Snapshot])
    outs: list[int] = field(default_factory=list[int])
    """Which leaves of the result are differentiable."""
    specs: tuple[Spec, ...] = ()
    values: tuple[Any, ...] | None = None
    """Those leaves, from the first run until the op is recorded."""

    @property
    def name(self) -> str:
        """`checkpoint(f)`."""
        return f"checkpoint({_name(self.f)})"

    @property
    def where(self) -> str:
        """The same, with the user's line."""
        return f"{self.name}, called at {location(*self.source)}"

    def run(
        self, tensors: Sequence[Any], step: Keep | SecondRun | None
    ) -> tuple[list[Any], Structure]:
        """The leaves of f's result, recorded."""
        leaves = list(self.rest)
        for i, x in zip(self.at, tensors, strict=True):
            leaves[i] = x
        args, kwargs = self.structure.unflatten(leaves)
        with recording(True):
            if step is None:
                return flatten(self.f(*args, **kwargs))
            with intercept_ops(step):
                result = flatten(self.f(*args, **kwargs))
        step.over = True  # whoever runs a part of this later is no part of this run
        return result


def stand_ins(call: CheckpointedCall) -> list[Any]:
    """Variables in the places of what f reaches by itself, whose values are f's own affair."""
    return [variable(np.broadcast_to(np.zeros((), n.dtype), n.shape), n) for n in call.captured]


def serial_now() -> int:
    """A serial number: nodes that are made from now on have higher ones."""
    return leaf((), np.dtype(float), needs=False).serial


def made_since(start: int, y: Any) -> bool:
    """Whether y is differentiable and was made since `start`."""
    return isinstance(y, Variable) and y.node is not None and y.node.needs and y.node.serial > start


def graph_down_to(
    roots: Sequence[Node], stop: set[Any], start: int
) -> tuple[list[Node], list[Node]]:
    """The graph of `roots` down to `stop` made since `start`, and the older nodes it begins at."""
    mine, older = dict.fromkeys(roots), set[Node]()
    stack = [n for n in roots if n not in stop]
    while stack:
        for n in stack.pop().inputs:
            if n is None or not n.needs or n in mine or n in stop:
                continue
            if n.serial < start:
                older.add(n)
            else:
                mine[n] = None
                stack.append(n)
    return list(mine), sorted(older, key=lambda n: n.serial)


class Recompute(Op):
    """One call of a checkpointed function; its rules run the function again and differentiate that.

    Inputs: the tensors among the arguments; values that a policy keeps; what the function reaches
    by itself, of which only the shape is known here.
    """

    call: CheckpointedCall
    quiet: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """`checkpoint(f)`."""
        return self.call.name

    @property
    def many(self) -> bool:  # type: ignore[override]
        """Whether there are several differentiable results."""
        return len(self.call.outs) > 1

    def eval(self, *xs: Any) -> Any:
        """What the first run gave, or else, what the function gives now."""
        values, self.call.values = self.call.values, None
        if values is None:
            values = tuple([y.value for y in self._again([variable(x) for x in xs])[0]])
        return values if self.many else values[0]

    def spec(self, *xs: Any) -> Any:
        """Those of the first run."""
        return self.call.specs if self.many else self.call.specs[0]

    def reads(self, i: int) -> tuple[int, ...]:
        """The arguments and the kept values."""
        call = self.call
        return tuple(range(1, 1 + len(call.at) + (sum(call.keep.counts) if call.keep else 0)))

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Cotangents pulled back through the graph of the second run."""
        gs: Sequence[Any] = g if self.many else (g,)
        ys, places = self._again(xs)
        record = is_recording() and any(isinstance(c, Variable) for c in gs)
        seeds: dict[Node, Any] = {}
        for out, c in zip(ys, gs, strict=True):
            if c is not None:
                before = seeds.get(out.node)
                seeds[out.node] = conj(c) if before is None else before + conj(c)
        wanted = [p for p, n in zip(places, need, strict=True) if n and p is not None]
        walk = order(seeds, wanted)
        got = pullback_nodes(walk, seeds, set(wanted), record=record, free=not record)
        return [conj(got[p]) if n and p in got else None for p, n in zip(places, need, strict=True)]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """Tangents pushed forward through the graph of the second run."""
        ys, places = self._again(xs)
        pairs = zip(places, ts, strict=True)
        tangents: dict[Node, Any] = {p: t for p, t in pairs if p is not None and t is not None}
        record = is_recording() and any(isinstance(t, Variable) for t in ts)
        walk = order([out.node for out in ys], tangents)
        got = pushforward_nodes(walk, tangents, record=record)
        dots = [got.get(out.node) for out in ys]
        full = [
            np.zeros(o.shape, o.dtype) if d is None else d for o, d in zip(ys, dots, strict=True)
        ]
        return tuple(full) if self.many else full[0]

    def _again(self, xs: Sequence[Any]) -> tuple[list[Any], list[Node | None]]:
        """The differentiable results of a second run, and for each input its place in the graph."""
        call = self.call
        count = len(call.at)
        tensors = [x if isinstance(x, Variable) else variable(x) for x in xs[:count]]
        start = serial_now()
        given = [alias(x) if n else x for x, n in zip(tensors, call.needs, strict=True)]
        places: list[Any] = [x.node if n else None for x, n in zip(given, call.needs, strict=True)]
        values = [x.value if isinstance(x, Variable) else x for x in xs[count:]]
        step = call.keep and SecondRun(call.keep, values, call.where)
        with _inside(call.around), fusing(call.fused), replay_random_state(call.chance):
            results, _ = call.run(given, step)
        ys = _check_results(call, results)
        nodes, older = graph_down_to([y.node for y in ys], {p for p in places if p}, start)
        if older != call.captured:
            raise _mismatch_error(
                call, "it reached other parameters or tensors that need a gradient"
            )
        stands = {n: alias(x).node for n, x in zip(older, stand_ins(call), strict=True)}
        for node in stands.values():
            node.serial = start  # a walk must find them older than what uses them
        for node in nodes:
            node.inputs = [stands.get(n, n) if n else n for n in node.inputs]
        kept = len(xs) - count - len(older)
        return ys, [*places, *[None] * kept, *stands.values()]


@contextmanager
def _inside(outer: Around) -> Generator[None]:
    """Ops are handed to whom they were handed in the first run: autocast holds again."""
    token = around.set(outer)
    try:
        yield
    finally:
        around.reset(token)


def _check_results(call: CheckpointedCall, results: Sequence[Any]) -> list[Any]:
    """The differentiable ones among the second results, if all are what they were."""
    for seen in call.first_result:
        what = seen.compare(results[seen.index] if seen.index < len(results) else None)
        if what:
            raise _mismatch_error(call, what)
    return [results[i] for i in call.outs]


def _mismatch_error(call: CheckpointedCall, what: str) -> GradientError:
    return GradientError(
        f"{call.where}: computed again for its derivative, it is not the same: {what}. It must do "
        "the same for the same arguments: draw random numbers from chainrule's generators, from "
        "random or from np.random's functions, and leave what it reads as it is until after "
        "backward"
    )
