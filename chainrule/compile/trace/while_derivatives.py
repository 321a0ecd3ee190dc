"""Derivatives of a loop of unknown length, as loops: tangents that are carried along, cotangents
that are carried back.

Going back needs what each iteration began with. A loop that says how many iterations it has at most
keeps that: row k of a tape is a carry before iteration k.

Notation: `xs` the inputs of an iteration, `new` its carries afterwards; `dots` tangents, `bars`
cotangents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule.compile.graph.loop_body import COUNT, Keep, WhileLoop, keep_inputs, replay
from chainrule.compile.graph.terms import in_order
from chainrule.compile.trace.closures import close_over, now, run, traced_input
from chainrule.compile.trace.graph_to_program import node_of
from chainrule.engine.derive import pullback_nodes, pushforward_nodes
from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import alias, apply, order, placeholder, recording, tracer
from chainrule.engine.node import Node, Variable
from chainrule.ops.families import conj
from chainrule.ops.indexing.selection import Take

BOOL, I64 = np.dtype(bool), np.dtype(np.int64)


def with_tangents(loop: WhileLoop, moved: Sequence[bool]) -> tuple[WhileLoop, list[int]]:
    """The loop that carries tangents, too; `moved` says which inputs have one. And the inputs that
    have one in some iteration: of those, tangents of carries follow the carries, others come
    last."""
    n, start, t = loop.carries, now(), tracer()
    active = {i for i, m in enumerate(moved) if m}
    with recording(True):
        xs, new = _one_iteration(loop)
        while True:
            dots = {i: placeholder(xs[i].shape, xs[i].dtype) for i in sorted(active)}
            walk = order(_open(new), [x.node for x in xs])
            got = pushforward_nodes(walk, {xs[i].node: d for i, d in dots.items()}, record=True)
            news = {i: got.get(node_of(x)) for i, x in enumerate(new)}
            more = {i for i, d in news.items() if d is not None} - active
            if not more:
                break
            active |= more
    heads, rest = [i for i in dots if i < n], [i for i in dots if i >= n]
    places = [*xs[:n], *[dots[i] for i in heads], *xs[n:], *[dots[i] for i in rest]]
    after = [or_zeros(news[i], xs[i]) for i in heads]
    made, _ = close_over(t, start, [x.node for x in places], [node_of(x) for x in (*new, *after)])
    return replace(made, extends=loop, most=loop.most), list(dots)


def _one_iteration(loop: WhileLoop) -> tuple[list[Any], list[Any]]:
    """An iteration on new places: its inputs, and the carries afterwards."""
    xs = [traced_input(x.shape, x.dtype) for x in loop.program.inputs]
    return xs, replay(loop.after(), dict(zip(loop.program.inputs, xs, strict=True)), run)


def _open(xs: Sequence[Any]) -> list[Node]:
    """The nodes of those that a derivative could go through."""
    return [x.node for x in xs if isinstance(x, Variable) and x.node and x.node.needs]


def or_zeros(x: Any, like: Any) -> Any:
    """`x`, or zeros of a shape and dtype where it is None."""
    return np.zeros(like.shape, like.dtype) if x is None else x


# --- going back ----------------------------------------------------------------------------------


def with_tapes(loop: WhileLoop, kept: Sequence[int]) -> WhileLoop:
    """The loop that keeps what these carries are before each iteration, on tapes that follow the
    carries."""
    n, start, t = loop.carries, now(), tracer()
    with recording(True):
        xs, new = _one_iteration(loop)
        tapes = [traced_input((loop.most, *xs[i].shape), xs[i].dtype) for i in kept]
        rows = [apply(Keep(), tape, xs[COUNT], xs[i]) for tape, i in zip(tapes, kept, strict=True)]
    places = [*xs[:n], *tapes, *xs[n:]]
    made, _ = close_over(t, start, [x.node for x in places], [node_of(x) for x in (*new, *rows)])
    return replace(made, extends=loop, most=loop.most)


@final
@dataclass
class Back:
    """The loop that goes back through another one.

    Its carries are a bool (whether it goes on), the number of iterations done, and cotangents.
    These are of the carries `heads`, and of `rest`, which iterations only read. It reads tapes of
    `saved_inputs`, what the forward loop reads, and the number of its iterations. It runs as many
    iterations itself, so it can be differentiated, too.
    """

    loop: WhileLoop
    heads: list[int]
    rest: list[int]
    saved_inputs: list[int]


def backward(loop: WhileLoop, ends: Sequence[int]) -> Back:
    """From the cotangents of the last carries `ends`."""
    n, heads, rest = loop.carries, sorted(ends), list[int]()
    while True:
        made, bars = _backward_loop(loop, heads, rest)
        more = sorted({*heads, *[i for i in bars if i < n]}), sorted({i for i in bars if i >= n})
        if more == (heads, rest):
            break
        heads, rest = more
    carried = made.carries
    used = set(in_order(made.program.roots))
    kept = [i for i in range(n) if made.program.inputs[carried + i] in used]
    others = range(carried + n, len(made.program.inputs))
    places = [*range(carried), *[carried + i for i in kept], *others]
    made = replace(made, program=keep_inputs(made.program, places), most=loop.most)
    return Back(made, heads, rest, kept)


def _backward_loop(
    loop: WhileLoop, heads: list[int], rest: list[int]
) -> tuple[WhileLoop, set[int]]:
    """The loop with tapes of all carries; and the inputs at which cotangents arrive."""
    n, t, start = loop.carries, tracer(), now()
    inputs = loop.program.inputs
    with recording(True):
        going, done, count = traced_input((), BOOL), traced_input((), I64), traced_input((), I64)
        bars = {i: placeholder(inputs[i].shape, inputs[i].dtype) for i in (*heads, *rest)}
        tapes = [traced_input((loop.most, *x.shape), x.dtype) for x in inputs[:n]]
        reads = [traced_input(x.shape, x.dtype) for x in inputs[n:]]
        at = count - 1 - done
        xs = [*[apply(Take(0), tape, at) for tape in tapes], *reads]
        arrived = _pull_back(loop, xs, {i: bars[i] for i in heads})
        news = [or_zeros(arrived.get(i), inputs[i]) for i in heads]
        news += [bars[i] + arrived[i] if i in arrived else bars[i] for i in rest]
        news = [at > 0, done + 1, *news]
    places = [going, done, *bars.values(), *tapes, *reads, count]
    made, _ = close_over(t, start, [x.node for x in places], [node_of(x) for x in news])
    return made, set(arrived)


def _pull_back(loop: WhileLoop, xs: Sequence[Any], bars: Mapping[int, Any]) -> dict[int, Any]:
    """The cotangents of the inputs `xs` of an iteration, from those of carries after it."""
    at = [alias(x) if x.dtype.kind in INEXACT else x for x in xs]
    new = replay(loop.after(), dict(zip(loop.program.inputs, at, strict=True)), run)
    seeds: dict[Node, Any] = {}
    for i, bar in bars.items():
        node = node_of(new[i])
        if node.needs:
            seeds[node] = conj(bar) if node not in seeds else seeds[node] + conj(bar)
    places = {x.node: i for i, x in enumerate(at) if x.dtype.kind in INEXACT}
    walk = order(seeds, places)
    got = pullback_nodes(walk, seeds, set(places), record=True, free=False)
    return {places[m]: conj(bar) for m, bar in got.items()}
