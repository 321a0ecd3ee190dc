"""A function of tensors, or one op, as a subject: its derivative is what the engine makes of its
graph, for an op its own rule for the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from chainrule.engine.derive import pullback_nodes
from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import Node, Variable, apply, order, recording, variable
from chainrule.engine.op import Op
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import GradientError, describe
from chainrule.ops.families import zeros_like
from chainrule.tree import flatten
from chainrule.verify.copies import twin
from chainrule.verify.own.derivation import derivation
from chainrule.verify.place import Place
from chainrule.verify.streams import Stream, replay, streams_drawn
from chainrule.verify.subject import Array, Input, Subject
from chainrule.verify.user_code import argument_names, name_of, place_of

Leaves = Callable[..., list[Tensor]]
"""A function of leaves (tensors where differentiated) that gives its differentiable results."""


@dataclass(frozen=True, eq=False)
class Call(Subject):
    """`f` of the inputs' values, those that are wanted as tensors, the others as they are."""

    name: str
    inputs: tuple[Input, ...]
    f: Leaves
    followed: Leaves | None
    """What is run to see its flow; None for an op, which has nothing inside."""
    kind: str = "function"
    streams: tuple[Stream, ...] = ()
    place: Place | None = None
    backward_place: Place | None = None
    held: str = ""
    """See `fixed`."""

    @property
    def fixed(self) -> str:
        """Why inputs cannot get other shapes."""
        return self.held

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The results' arrays; nothing is recorded."""
        with replay(self.streams), recording(False):
            outs = self.f(*[variable(twin(x)) if i.wanted else x for i, x in self._pairs(xs)])
        return tuple([o.value for o in outs])

    def _pairs(self, xs: Sequence[Any]) -> zip[tuple[Input, Any]]:
        return zip(self.inputs, xs, strict=True)

    def run(self, xs: Sequence[Any]) -> tuple[list[Tensor], list[Node | None]]:
        """The results with their graph, and the node of each input (None where not wanted)."""
        leaves = [variable(twin(x)).requires_grad_() if i.wanted else x for i, x in self._pairs(xs)]
        nodes = [x.node if i.wanted else None for i, x in self._pairs(leaves)]
        with replay(self.streams), recording(True):
            outs = self.f(*leaves)
        return outs, nodes

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """The engine's cotangents; zeros for an input on which, it says, nothing depends."""
        outs, nodes = self.run(xs)
        seeds: dict[Node, Any] = {}
        for out, g in zip(outs, gs, strict=True):
            if out.node is not None and out.node.needs:
                seeds[out.node] = seeds[out.node] + g if out.node in seeds else g
        wanted = [n for n in nodes if n is not None]
        got = pullback_nodes(order(seeds, wanted), seeds, set(wanted), record=False, free=False)
        return tuple([_bar(n, got) for n in nodes])

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """By the engine, ops that users define looked into."""
        if self.followed is None:
            return None
        with replay(self.streams):
            found = derivation(self.followed, xs, [i.wanted for i in self.inputs])
        return None if found is None else found.pull(gs)


def _bar(node: Node | None, got: dict[Node, Any]) -> Array | None:
    if node is None:
        return None
    return np.asarray(got[node]) if node in got else zeros_like(node)


# --- From what the user passes to leaves ---------------------------------------------------------


def flows(x: Any) -> bool:
    """Whether a gradient flows to x."""
    return isinstance(x, Variable) and x.node is not None and x.node.needs


def is_array(x: Any) -> bool:
    """Whether `x` is a tensor, an array or a number of NumPy's."""
    return isinstance(x, Tensor | np.ndarray | np.generic)


def value_of(x: Any) -> Any:
    """The array of a tensor, array or NumPy number; anything else itself."""
    if isinstance(x, Tensor):
        return np.array(x.detach().value)
    return np.array(cast(Any, x)) if isinstance(x, np.ndarray | np.generic) else x


def leaves_of(names: Sequence[str], args: Sequence[Any]) -> tuple[Input, ...]:
    """An `Input` for each leaf of the arguments.

    Floating-point tensors and arrays are wanted; where there are none, Python's floats.
    Raises `GradientError` if there is nothing to differentiate.
    """
    leaves, _ = flatten(list(args))
    full = [
        f"{name}{path}" for name, arg in zip(names, args, strict=True) for path in paths(arg, "")
    ]
    alone = not any(is_array(x) and x.dtype.kind in INEXACT for x in leaves)
    inputs: list[Input] = []
    for name, x in zip(full, leaves, strict=True):
        number = alone and isinstance(x, float | complex) and not isinstance(x, np.generic)
        value = np.asarray(x) if number else value_of(x)
        inputs.append(Input(name, value, is_array(value) and value.dtype.kind in INEXACT))
    if not any(x.wanted for x in inputs):
        shown = ", ".join([describe(x) for x in leaves]) or "nothing"
        raise GradientError(
            f"nothing to differentiate: the arguments are {shown}. Give at least one tensor or "
            "array of floats (integers count as indices and labels; write x.astype(float))"
        )
    return tuple(inputs)


def paths(tree: Any, at: str) -> list[str]:
    """For each leaf of a tree how to reach it: "['w']", "[0]", ".mean"."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        items = [(f"[{k!r}]", v) for k, v in cast("dict[Any, Any]", tree).items()]
    elif isinstance(tree, list | tuple) and not hasattr(cast(Any, tree), "_fields"):
        items = [(f"[{i}]", v) for i, v in enumerate(cast("list[Any]", tree))]
    else:
        leaves, structure = flatten(tree)
        if structure.kind is None:
            return [at]
        whole: Any = cast(Any, tree)
        items = [(f".{k}", getattr(whole, k)) for k in structure.keys] if leaves else []
    return [path for step, part in items for path in paths(part, at + step)]


def results_of(result: Any, what: str) -> list[Tensor]:
    """The floating-point tensors in a result; raises `GradientError` if there is none."""
    leaves, _ = flatten(result)
    outs = [asarray(x) for x in leaves if is_array(x) or isinstance(x, float | complex)]
    outs = [o for o in outs if o.dtype.kind in INEXACT]
    if not outs:
        shown = ", ".join([describe(x) for x in leaves]) or "nothing"
        raise GradientError(f"{what} returned {shown}: no floating-point tensor to differentiate")
    return outs


def on_leaves(f: Callable[..., Any], args: Sequence[Any]) -> Leaves:
    """`f` as a function of the leaves of `args`; where a tensor stood it gets a tensor."""
    leaves, structure = flatten(list(args))
    tensors = [isinstance(x, Tensor) for x in leaves]

    def flat(*leaves: Any) -> list[Tensor]:
        pairs = zip(leaves, tensors, strict=True)
        given = [variable(x) if t and isinstance(x, np.ndarray) else x for x, t in pairs]
        return results_of(f(*structure.unflatten(given)), name_of(f))

    return flat


def subject_of_call(f: Callable[..., Any], args: Sequence[Any], *, name: str | None = None) -> Call:
    """The subject of a function of tensors (or of arrays, by NumPy's protocols) at `args`."""
    inputs = leaves_of(argument_names(f, len(args)), args)
    flat = on_leaves(f, args)
    made = Call(name or name_of(f), inputs, flat, flat, place=place_of(f))
    xs = [x.value for x in inputs]
    _, streams = streams_drawn(lambda: made.forward(xs), (f,))
    return replace(made, streams=streams)


def subject_of_op(op: Op, args: Sequence[Any], *, place: Place | None = None) -> Call | None:
    """The subject of `op` at `args`, used at `place`; None if no gradient flows through it."""
    inputs: list[Input] = []
    for i, x in enumerate(args):
        value = value_of(x)
        flows = is_array(value) and value.dtype.kind in INEXACT and op.reads(i) is not None
        inputs.append(Input(_letter(i, len(args)), value, bool(flows)))
    if not any(x.wanted for x in inputs):
        return None

    def applied(*xs: Any) -> list[Tensor]:
        y: Any = apply(op, *[variable(x) if isinstance(x, np.ndarray) else x for x in xs])
        outs = list(cast("tuple[Tensor, ...]", y)) if isinstance(y, tuple) else [y]
        return [o for o in outs if o.dtype.kind in INEXACT]

    at = place_of(type(op))
    return Call(op.name, tuple(inputs), applied, None, kind="op", place=place, backward_place=at)


def _letter(i: int, count: int) -> str:
    """The name that the op tables give to argument `i` of `count`."""
    return "x" if count == 1 else "abcdefgh"[i] if i < 8 else f"x{i}"
