"""The derivative of a forward as the engine has it, by running the forward on tensors once.

What users cut (`detach`) or define (`Function`) is looked through: it is the forward that tells the
right gradient, not what is claimed of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.function import Call as UserCall
from chainrule.engine.function import Context
from chainrule.engine.graph import Node, Variable, apply, intercept_ops, order, recording, variable
from chainrule.engine.op import Detach, Op
from chainrule.engine.tensors import asarray
from chainrule.engine.watch import Watch, watching
from chainrule.ops.families import zeros_like
from chainrule.verify.subject import Array


@final
class _Relinking:
    """Handed every op of a forward: links again what was cut."""

    def __init__(self) -> None:
        self.lost = ""
        """How a number was taken out of the graph, after which nobody can follow it."""
        self._cut: dict[int, tuple[Any, Any]] = {}

    def __call__(self, op: Op, xs: Sequence[Any]) -> Any:
        """What `op` gives on `xs`, recorded also where recording is off."""
        if isinstance(op, Detach):
            return xs[0]
        if isinstance(op, UserCall):
            return self._inside(op, xs)
        with recording(True):
            y: Any = apply(op, *[self._linked(x) for x in xs])
        return y

    def _inside(self, op: UserCall, xs: Sequence[Any]) -> Any:
        """What the user's forward computes, op by op instead of as one."""
        args = list(op.static)
        for index, x in zip(op.tensor_positions, xs, strict=True):
            args[index] = x if isinstance(x, Variable) else variable(x)
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


@final
class Derivation:
    """The graph of a forward that ran."""

    def __init__(self, outs: Sequence[Any], leaves: Sequence[Node | None]) -> None:
        self.values: list[Array] = [o.value for o in outs]
        """The outputs, as they were computed on the way."""
        self._outs, self._leaves = [o.node for o in outs], leaves

    def pull(self, gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """x_bars by the engine's sweep, None where no gradient is wanted."""
        seeds: dict[Node, Any] = {}
        for node, g in zip(self._outs, gs, strict=True):
            if node is not None and node.needs:
                cast = np.asarray(g).astype(node.dtype, copy=False)
                seeds[node] = seeds[node] + cast if node in seeds else cast
        wanted = [n for n in self._leaves if n is not None]
        walk = order([n for n in self._outs if n is not None], wanted)
        got = pullback_nodes(walk, seeds, set(wanted), record=False, free=False)
        return tuple([None if n is None else _array(got.get(n), n) for n in self._leaves])


def _array(bar: Any, node: Node) -> Array:
    return zeros_like(node) if bar is None else np.asarray(bar)


def derivation(
    f: Callable[..., Sequence[Any]], xs: Sequence[Any], wanted: Sequence[bool]
) -> Derivation | None:
    """That of `f`, which gives a list of outputs, at xs; None if it cannot be followed.

    `f` gets tensors for what is wanted, and all else as it is. It cannot be followed where it
    leaves the graph (writes into NumPy arrays, C code, numbers taken out).
    """
    try:
        leaves = [
            variable(np.array(x)).requires_grad_() if w else x
            for x, w in zip(xs, wanted, strict=True)
        ]
        nodes = [x.node if w else None for x, w in zip(leaves, wanted, strict=True)]
        whole = _Relinking()
        with watching(Watch(on_leave=whole.left)), intercept_ops(whole), recording(True):
            outs = [asarray(y) for y in f(*leaves)]
    except Exception:
        return None
    return None if whole.lost else Derivation(outs, nodes)
