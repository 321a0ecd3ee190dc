"""A forward as a graph of ops whose derivatives are known, by running it on tensors once.

Each use of a value by an op goes through a `Weight`, an op that changes nothing but multiplies the
cotangent on its way back. So the engine's own sweep answers what the gradient would be if a path
were forgotten, counted twice or turned around.

What users cut (`detach`) or define (`Function`) is looked through: it is the forward that tells the
right gradient, not what is claimed of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.function import Call as UserCall
from chainrule.engine.function import Context
from chainrule.engine.graph import Node, Variable, apply, intercept_ops, order, recording, variable
from chainrule.engine.op import Detach, Need, Op, Unchanged, new_op
from chainrule.engine.tensors import asarray
from chainrule.engine.watch import Watch, watching
from chainrule.ops.families import Elementwise, zeros_like
from chainrule.verify.reading import place_at
from chainrule.verify.subject import Array, Edge, Flow


class Weight(Unchanged):
    """The input itself; what comes back over edge `index` is multiplied by what `weights` says."""

    weights: dict[int, float]
    index: int

    @property
    def name(self) -> str:
        """`edge 3`, say."""
        return f"edge {self.index}"

    def reads(self, i: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` times the weight."""
        weight = self.weights.get(self.index)
        return (g if weight is None else g * weight,)

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent times the weight."""
        weight = self.weights.get(self.index)
        return ts[0] if weight is None else ts[0] * weight


@final
class Recorder:
    """Handed every op of a forward: notes its edges, and links again what was cut."""

    def __init__(self, inputs: Mapping[Node, int]) -> None:
        self.weights: dict[int, float] = {}
        self.edges: list[Edge] = []
        self.lost = ""
        """How a number was taken out of the graph, after which nobody can follow it."""
        self._reached = {n: frozenset([i]) for n, i in inputs.items()}
        self._cut: dict[int, tuple[Any, Any]] = {}

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """What `op` gives on `xs`, recorded also where recording is off."""
        if isinstance(op, Detach):
            return xs[0]
        if isinstance(op, UserCall):
            return self._inside(op, xs)
        linked = [self._linked(x) for x in xs]
        with recording(True):
            y = apply(op, *[self._edge(op, i, x) for i, x in enumerate(linked)])
        reached = frozenset[int]().union(*[self._reach(x) for x in linked])
        for part in y if isinstance(y, tuple) else (y,):  # pyright: ignore[reportUnknownVariableType]
            if isinstance(part, Variable) and part.node is not None:
                self._reached[part.node] = reached
        return y  # pyright: ignore[reportUnknownVariableType]

    def _inside(self, op: UserCall, xs: Sequence[Any]) -> Any:
        """What the user's forward computes, op by op instead of as one."""
        args = list(op.static)
        for place, x in zip(op.places, xs, strict=True):
            args[place] = x if isinstance(x, Variable) else variable(x)
        with intercept_ops(self), recording(True):
            return op.function.forward(Context(op.ctx.needs_input_grad), *args)

    def left(self, x: Any, how: str) -> None:
        """Told by the engine that the value of `x` is taken off the graph, by `detach()`, say."""
        known = id(x.value) in self._cut or (x.node is not None and x.node.needs)
        if not known or how == "bool()":  # a branch: the value itself goes nowhere
            return
        if how in ("detach()", ".data"):
            self._cut.setdefault(id(x.value), (x.value, x))
        else:
            self.lost = how

    def _linked(self, x: Any) -> Any:
        """`x`, or the tensor that it was before it was taken off the graph."""
        if isinstance(x, Variable) and x.node is None and id(x.value) in self._cut:
            return self._cut[id(x.value)][1]
        return x

    def _reach(self, x: Any) -> frozenset[int]:
        node = x.node if isinstance(x, Variable) else None
        return self._reached.get(node, frozenset()) if node is not None else frozenset()

    def _edge(self, op: Op, i: int, x: Any) -> Any:
        """The tensor `x` behind a weight of its own, if a gradient can flow to it."""
        if not isinstance(x, Variable) or x.node is None or not x.node.needs:
            return x
        if op.reads(i) is None:
            return x
        used = apply(new_op(Weight, self.weights, len(self.edges)), x)
        place = place_at(used.node.code, used.node.line)
        self.edges.append(Edge(op.name, i, place, self._reach(x), _settings(op)))
        return used


def _settings(op: Op) -> str:
    """The op's fields that are plain values: "axes=(1,), keepdims=True". Those of elementwise ops
    are the rules of their row."""
    if isinstance(op, Elementwise):
        return ""
    plain = (bool, int, float, str, tuple, type(None))
    fields = [(n, getattr(op, n)) for n in op.fields]
    shown = [f"{n}={v!r}" for n, v in fields if isinstance(v, plain)]
    return ", ".join([s for s in shown if len(s) <= 60 and " at 0x" not in s])


@final
class Traced(Flow):
    """A forward that was recorded, with its graph."""

    def __init__(
        self, outs: Sequence[Any], leaves: Sequence[Node | None], recorder: Recorder
    ) -> None:
        self.edges: tuple[Edge, ...] = tuple(recorder.edges)
        self._weights = recorder.weights
        self.values: list[Array] = [o.value for o in outs]
        """The outputs, as they were computed on the way."""
        self._outs = [o.node for o in outs]
        self._leaves = leaves
        wanted = [n for n in leaves if n is not None]
        self._wanted = set(wanted)
        self._walk: list[Node] = order([n for n in self._outs if n is not None], wanted)

    def pull(
        self, gs: Sequence[Array], weights: Mapping[int, float] | None = None
    ) -> tuple[Array | None, ...]:
        """By the engine's sweep, the weights in place while it goes."""
        seeds: dict[Node, Any] = {}
        for node, g in zip(self._outs, gs, strict=True):
            if node is not None and node.needs:
                cast = np.asarray(g).astype(node.dtype, copy=False)
                seeds[node] = seeds[node] + cast if node in seeds else cast
        self._weights.update(weights or {})
        try:
            got = pullback_nodes(self._walk, seeds, self._wanted, record=False, free=False)
        finally:
            self._weights.clear()
        return tuple([None if n is None else _array(got.get(n), n) for n in self._leaves])


def _array(bar: Any, node: Node) -> Array:
    return zeros_like(node) if bar is None else np.asarray(bar)


def trace(
    f: Callable[..., Sequence[Any]], xs: Sequence[Any], wanted: Sequence[bool]
) -> Traced | None:
    """The flow of `f`, which gives a list of outputs, at xs; None if it cannot be followed.

    `f` gets tensors for what is wanted, and all else as it is. It cannot be followed where it
    leaves the graph (writes into NumPy arrays, C code, numbers taken out).
    """
    try:
        leaves = [
            variable(np.array(x)).requires_grad_() if w else x
            for x, w in zip(xs, wanted, strict=True)
        ]
        nodes = [x.node if w else None for x, w in zip(leaves, wanted, strict=True)]
        recorder = Recorder({n: i for i, n in enumerate(nodes) if n is not None})
        with watching(Watch(on_leave=recorder.left)), intercept_ops(recorder), recording(True):
            outs = [asarray(y) for y in f(*leaves)]
    except Exception:
        return None
    return None if recorder.lost else Traced(outs, nodes, recorder)
