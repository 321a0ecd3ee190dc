"""The two sweeps over a graph, from which every derivative is made.

`pullback` walks a graph backwards and asks each op's vjp; `pushforward` walks it forwards and asks
its jvp. Both run on arrays, or, where the result must itself be differentiable, on variables: the
rules are the same. An op that states only one of the two rules gets the other by transposing it.

Notation: `g` a cotangent, `t` a tangent; `bars` cotangents of inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import copy_context
from typing import Any

import numpy as np

from chainrule.engine import watch
from chainrule.engine.arrays import operand
from chainrule.engine.graph import (
    is_recording,
    leaf,
    order,
    pick,
    recording,
    set_recording,
    tracer,
    variable,
)  # fmt: skip
from chainrule.engine.node import Freed, Node, Variable
from chainrule.engine.op import Op, Pick, Spec
from chainrule.engine.quiet import be_quiet
from chainrule.errors import GradientError, ShapeError
from chainrule.ops.families import Elementwise, conj
from chainrule.ops.shapes.shaping import astype

# --- The two sweeps ------------------------------------------------------------------------------


def pullback_nodes(
    walk: Sequence[Node], seeds: dict[Node, Any], wrt: set[Node] | None, *, record: bool, free: bool
) -> dict[Node, Any]:
    """Carry the cotangents `seeds` back along `walk`; return those that arrive at leaves and `wrt`.

    With `record`, cotangents are variables, and what is done to them is recorded. Otherwise they
    are arrays; placeholders where the seeds stand for values that are not known yet. With `wrt`,
    only the paths that lead to it are walked. With `free`, kept values are let go. On the way
    cotangents of complex values are conjugated, so that rules need not conjugate.
    """
    return copy_context().run(_pull_back, walk, seeds, wrt, record, free)


def _pull_back(
    walk: Sequence[Node], seeds: dict[Node, Any], wrt: set[Node] | None, record: bool, free: bool
) -> dict[Node, Any]:
    """`pullback_nodes`, in a context of its own, which keeps its settings."""
    set_recording(record)
    arrived: dict[Node, Any] = {}
    if watch.watches:
        with watch.sweep(walk, seeds, arrived, record):
            _carry_back(walk, seeds, wrt, record, free, arrived)
    else:
        be_quiet()
        _carry_back(walk, seeds, wrt, record, free, arrived)
    for node, g in arrived.items():
        if g.__class__ is tuple or g.dtype.kind == "c":
            arrived[node] = _conj(g)
    return arrived


def _carry_back(
    walk: Sequence[Node],
    seeds: dict[Node, Any],
    wrt: set[Node] | None,
    record: bool,
    free: bool,
    arrived: dict[Node, Any],
) -> None:
    """Fills `arrived`."""
    sweep = _Sweep(walk, seeds, wrt, record, arrived)
    freed = Freed(5) if free else None
    plain, cotangents, seen = sweep.plain, sweep.cotangents, watch.invalid.seen
    take, get = cotangents.pop, cotangents.get
    seen.clear()
    for node in walk:
        g = take(node, None)
        if g is None:
            continue
        op, need, xs = node.op, node.need, node.xs
        if op is None or node.extra is not None or wrt is not None or g.__class__ is list:
            g, need = sweep.visit(node, g)
        if True not in need or op is None:
            continue
        usual = plain and op.states_vjp and op.__class__ is not Pick
        if usual and xs.__class__ is not Freed:
            bars = op.vjp(need, g, node.y, xs)
        else:
            bars = sweep.bars(op, node, need, g)
        if seen:  # a NaN was made: perhaps a cotangent of 0 met an infinity
            bars = sweep.strong_bars(op, node, need, g, bars)
        if watch.watches:
            watch.on_vjp(node, g, bars)
        i = 0
        for n in node.inputs:
            bar = bars[i]
            i += 1
            if bar is None or n is None:
                continue
            before = get(n)
            if bar.__class__ is tuple:
                cotangents[n] = _merge(before, bar)
                continue
            if bar.dtype is not n.dtype and bar.dtype != n.dtype:
                bar = astype(bar, n.dtype)
            cotangents[n] = bar if before is None else before + bar
        if freed is not None:
            node.y, node.xs = None, freed


class _Sweep:
    """What is particular in one sweep, and rare: `plain` says that cotangents are arrays."""

    __slots__ = ("_active", "_arrived", "_traced", "_wrap", "_wrt", "cotangents", "plain")

    def __init__(
        self,
        walk: Sequence[Node],
        seeds: dict[Node, Any],
        wrt: set[Node] | None,
        record: bool,
        arrived: dict[Node, Any],
    ) -> None:
        self._wrt, self._arrived = wrt, arrived
        self._active = None if wrt is None else _leading_to(walk, wrt)
        self.cotangents: dict[Node, Any] = {}
        self._wrap, self._traced = record, tracer() is not None
        for node, g in seeds.items():
            self.cotangents[node] = conj(g)
            self._wrap = self._wrap or isinstance(g, Variable)
        self.plain = not (self._wrap or self._traced)

    def visit(self, node: Node, g: Any) -> tuple[Any, tuple[bool, ...]]:
        """The cotangent that arrives at a node, when its hooks have seen it, and the inputs to
        which it goes on. The cotangent of one output of several goes on at once."""
        if g.__class__ is list:  # of the outputs of an op
            g = tuple(g)
        if node.extra is not None:
            g = _visit(node, g)
            if node.extra.retain:
                self._arrived[node] = g
        if node.op is None or (self._wrt is not None and node in self._wrt):
            self._arrived[node] = g
        return g, node.need if self._active is None else _towards(self._active, node)

    def bars(self, op: Op, node: Node, need: tuple[bool, ...], g: Any) -> Sequence[Any]:
        """The cotangents of the inputs of `node`, from that of its output."""
        if node.xs.__class__ is Freed:
            raise _used_twice(node)
        if op.__class__ is Pick and not watch.watches:
            _put(self.cotangents, node, op, g)
            return (None,)
        y, xs = self._kept(node)
        if self._traced and isinstance(op, Elementwise):
            return op.strong_vjp(need, g, y, xs)  # values are not known: it may be needed
        if op.states_vjp:
            return op.vjp(need, g, y, xs)
        return _transposed_jvp(op, need, g, _value_or_spec(y, node), xs)

    def strong_bars(
        self, op: Op, node: Node, need: tuple[bool, ...], g: Any, bars: Sequence[Any]
    ) -> Sequence[Any]:
        """The same, where a cotangent of 0 wins over an infinity."""
        if isinstance(op, Elementwise):
            bars = op.strong_vjp(need, g, *self._kept(node))
        watch.invalid.seen.clear()
        return bars

    def _kept(self, node: Node) -> tuple[Any, Any]:
        """What the rules of `node` read."""
        return _as_variables(node) if self._wrap else (node.y, node.xs)


def _put(cotangents: dict[Node, Any], node: Node, op: Any, g: Any) -> None:
    """Add the cotangent of one output to those of the op that has it: as `Pick.vjp` does, without
    a tuple of all for each."""
    parent: Any = node.inputs[0]
    parts: Any = cotangents.get(parent)
    if parts.__class__ is not list:
        parts = cotangents[parent] = list(parts or [None] * len(parent.shape))
    before = parts[op.index]
    parts[op.index] = g if before is None else before + g


def _towards(active: set[Node], node: Node) -> tuple[bool, ...]:
    """Through which inputs of `node` a path leads on to what is wanted."""
    pairs = zip(node.need, node.inputs, strict=True)
    return tuple([needed and n in active for needed, n in pairs])


def _as_variables(node: Node) -> tuple[Any, list[Any]]:
    """The kept values of `node`, each a variable that is linked to the node that made it."""
    y = node.y
    if y.__class__ is tuple:
        y = tuple([pick(node, i, part) for i, part in enumerate(y)])
    elif isinstance(y, np.ndarray | Spec):
        y = variable(y, node)
    return y, [
        variable(x, n)
        if isinstance(x, np.ndarray) or (x.__class__ is Spec and n is not None)
        else x
        for x, n in zip(node.xs, node.inputs, strict=True)
    ]


def _value_or_spec(y: Any, node: Node) -> Any:
    """The output's value, or what tells its shape."""
    return Spec(node.shape, node.dtype) if y is None else y


def _merge(before: tuple[Any, ...] | None, bars: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add the cotangents of an op with several outputs, one by one."""
    if before is None:
        return bars
    return tuple(
        [b if a is None else a if b is None else a + b for a, b in zip(before, bars, strict=True)]
    )


def _visit(node: Node, g: Any) -> Any:
    """Let hooks see and replace a cotangent."""
    extra = node.extra
    assert extra is not None
    for hook in list(extra.hooks.values()):
        seen = hook(conj(g) if isinstance(g, Variable) else variable(conj(g)))
        if seen is None:
            continue
        value = seen.value if isinstance(seen, Variable) else np.asarray(operand(seen))
        if value.shape != node.shape:
            raise ShapeError(
                f"a hook on {node} returned shape {value.shape}, the gradient has {node.shape}"
            )
        g = astype(conj(seen if isinstance(g, Variable) else value), node.dtype)
    return g


def _used_twice(node: Node) -> GradientError:
    return GradientError(
        f"cannot go back through '{node.name}' {node.dtype} {node.shape} (made at {node.where}) a "
        f"second time: this graph was freed by the backward at {node.xs.where}. "
        "Say retain_graph=True there, or compute the forward pass again."
    )


def _leading_to(walk: Sequence[Node], wrt: set[Node]) -> set[Node]:
    """The nodes of `walk` from which a path leads to `wrt`."""
    active = set(wrt)
    for node in reversed(walk):
        if node not in active:
            for n, needed in zip(node.inputs, node.need, strict=True):
                if needed and n in active:
                    active.add(node)
                    break
    return active


def pushforward_nodes(
    walk: Sequence[Node], tangents: dict[Node, Any], *, record: bool
) -> dict[Node, Any]:
    """Carry `tangents` (by node) forward along `walk`, whose inputs come last; return them all."""
    out = dict(tangents)
    with recording(record), np.errstate(all="ignore"):
        for node in reversed(walk):
            op = node.op
            if node in out or op is None:
                continue
            ts = [
                out.get(n) if n is not None and needed else None
                for n, needed in zip(node.inputs, node.need, strict=True)
            ]
            if not [t for t in ts if t is not None]:
                continue
            if node.xs.__class__ is Freed:
                raise _used_twice(node)
            y, xs = _as_variables(node) if record else (node.y, node.xs)
            y = _value_or_spec(y, node)
            y_dot = pushed_forward(op, node, ts, y, xs)
            if y_dot.__class__ is not tuple and y_dot.dtype != node.dtype:
                y_dot = astype(y_dot, node.dtype)
            if watch.watches:
                watch.on_jvp(node, ts, y_dot)
            out[node] = y_dot
    return out


# --- One rule from the other, by transposing it --------------------------------------------------


def pulled_back(op: Op, need: tuple[bool, ...], g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
    """The cotangents that the rule of `op` makes of `g`, whichever rule it states."""
    if op.states_vjp:
        return op.vjp(need, g, y, xs)
    return _transposed_jvp(op, need, g, y, xs)


def pushed_forward(op: Op, out: Any, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
    """The tangent that the rule of `op` makes of `ts`; shape and dtype of y are those of `out`."""
    return op.jvp(ts, y, xs) if op.states_jvp else _transposed_vjp(op, out, ts, y, xs)


def _transposed_vjp(op: Op, node: Node, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
    """The jvp of an op that states its vjp, which is linear in g: pull the tangents through it."""
    need = tuple([t is not None for t in ts])
    many = op.many
    shapes = node.shape if many else (node.shape,)
    dtypes = node.dtype if many else (node.dtype,)
    gs = [_zero(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    with recording(True):
        bars = op.vjp(need, tuple(gs) if many else gs[0], y, xs)
    pairs = [(b, t) for b, t in zip(bars, ts, strict=True) if t is not None and b is not None]
    parts = [each for b, t in pairs for each in zip(_parts(b), _parts(t), strict=True)]
    pairs = [(b, t) for b, t in parts if t is not None and b is not None]
    dots = _transpose(gs, [b for b, _ in pairs], [t for _, t in pairs])
    return tuple(dots) if many else dots[0]


def _transposed_jvp(
    op: Op, need: tuple[bool, ...], g: Any, y: Any, xs: Sequence[Any]
) -> Sequence[Any]:
    """The vjp of an op that states its jvp: that is linear in ts; pull g back through it."""
    ts = [_zeros(x) if n else None for n, x in zip(need, xs, strict=True)]
    with recording(True):
        y_dot = op.jvp(ts, y, xs)
    outs: Sequence[Any] = y_dot if op.many else [y_dot]
    gs: Sequence[Any] = g if op.many else [g]
    pairs = [(o, c) for o, c in zip(outs, gs, strict=True) if c is not None]
    places = [part for t in ts if t is not None for part in _parts(t)]
    bars = iter(_transpose(places, [o for o, _ in pairs], [c for _, c in pairs]))
    return [None if t is None else _as_parts(t, bars) for t in ts]


def _as_parts(t: Any, bars: Iterator[Any]) -> Any:
    """The next cotangent, or for something with parts one for each."""
    return tuple([next(bars) for _ in t]) if t.__class__ is tuple else next(bars)


def _parts(x: Any) -> Sequence[Any]:
    """The parts of what belongs to an op with several outputs; of another op itself."""
    return x if x.__class__ is tuple else (x,)


def _zeros(x: Any) -> Any:
    """Zeros to differentiate at in place of `x`, for each of its parts if it has several."""
    if x.__class__ is Node and x.dtype.__class__ is tuple:
        return tuple([_zero(s, d) for s, d in zip(x.shape, x.dtype, strict=True)])
    return _zero(x.shape, x.dtype)


def _zero(shape: tuple[int, ...], dtype: Any) -> Any:
    """A variable of zeros that a linear rule can be differentiated at."""
    return variable(np.zeros(shape, dtype), leaf(shape, dtype, needs=True))


def _transpose(xs: Sequence[Any], outs: Sequence[Any], gs: Sequence[Any]) -> list[Any]:
    """Cotangents of `xs`, on which `outs` depend linearly: arrays or variables, as `gs` are.

    Inside a rule nothing is conjugated, while the sweep conjugates on its way in and out.
    """
    gs = [_conj(g) for g in gs]
    wrap = any(isinstance(g, Variable) for g in gs)
    nodes = [x.node for x in xs]
    seeds: dict[Node, Any] = {}
    for out, g in zip(outs, gs, strict=True):
        if isinstance(out, Variable) and out.node is not None:
            before = seeds.get(out.node)
            seeds[out.node] = g if before is None else before + g
    walk = order(seeds, nodes)
    got = pullback_nodes(walk, seeds, set(nodes), record=wrap and is_recording(), free=False)
    bars = [got.get(n) for n in nodes]
    return [
        np.zeros(n.shape, n.dtype) if b is None else _conj(b)
        for n, b in zip(nodes, bars, strict=True)
    ]


def _conj(g: Any) -> Any:
    """The conjugate of a cotangent, which is a tuple where an op has several outputs."""
    if g.__class__ is tuple:
        return tuple([None if part is None else conj(part) for part in g])
    return conj(g)
