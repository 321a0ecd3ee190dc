"""vmap: a function of one example, applied to many at once.

The function runs once, on placeholders with the shapes of one example; what it recorded is then run
on all examples together, op by op, by the rules in `ops/batching.py`. That goes through `apply`
like everything else, so vmap nests with grad, jvp and itself in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from chainrule.engine.function import Call
from chainrule.engine.graph import (
    Node,
    Variable,
    is_recording,
    order,
    placeholder,
    recording,
    variable,
)
from chainrule.engine.op import Pick, Spec
from chainrule.engine.tensors import asarray
from chainrule.errors import ShapeError, describe
from chainrule.ops import batching_windows as _rules_of_places  # noqa: F401 # pyright: ignore[reportUnusedImport]
from chainrule.ops.batching import batch, no_examples
from chainrule.ops.families import broadcast_to
from chainrule.ops.shapes.joining import stack
from chainrule.ops.shapes.shaping import moveaxis, normalize_axis
from chainrule.tree import flatten

Axes = Any
"""An int, None (the same for every example), or a tree of those that begins like the argument."""


def vmap(f: Callable[..., Any], in_axes: Axes = 0, out_axes: Axes = 0) -> Callable[..., Any]:
    """A function that applies f to each example along the axes `in_axes` of its arguments.

    `in_axes` is one entry for all positional arguments, or a tuple with one for each. An entry is
    the axis that counts the examples, or None for an argument that all examples share; for a tree
    it may be a tree of those. Results get the axis `out_axes`. f must not branch on values in
    Python; random numbers that it draws are the same for every example.

    >>> import chainrule as cr
    >>> cr.vmap(cr.grad(lambda x: x**3))(cr.tensor([1.0, 2.0]))
    tensor([ 3., 12.], dtype=float32)
    """

    def wrapper(*args: Any) -> Any:
        leaves, structure = flatten(list(args))
        axes = _spread_axes(in_axes, args)
        tensors = [asarray(x) for x in leaves]
        places = [
            None if a is None else _axis_of_examples(a, t)
            for a, t in zip(axes, tensors, strict=True)
        ]
        size = _size(tensors, places)
        moved = [
            t if a is None else moveaxis(t, a, 0) for t, a in zip(tensors, places, strict=True)
        ]
        examples = [
            t if a is None else placeholder(t.shape[1:], t.dtype, needs=t.requires_grad)
            for t, a in zip(moved, places, strict=True)
        ]
        result = f(*structure.unflatten(examples))
        outs, shape = flatten(result)
        known: dict[Any, Any] = {
            e.node: m for e, m, a in zip(examples, moved, places, strict=True) if a is not None
        }
        done = _replay([asarray(o) for o in outs], known, size)
        places = _spread_axes(out_axes, result if isinstance(result, tuple) else (result,))
        return shape.unflatten([_place_examples(y, a) for y, a in zip(done, places, strict=True)])

    return wrapper


def _place_examples(y: Any, axis: int | None) -> Any:
    """A result with its examples along `axis`."""
    if axis is None:
        raise ShapeError("vmap: out_axes says where the examples go; it cannot be None")
    return y if axis == 0 else moveaxis(y, 0, axis)


def _spread_axes(axes: Axes, args: Any) -> list[int | None]:
    """An axis for each leaf of the arguments, from a tree of axes that begins like them."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(flatten(list(args))[0])
    if len(axes) != len(args):
        raise ShapeError(f"vmap: {len(axes)} axes for {len(args)} arguments or results")
    out: list[int | None] = []
    for axis, arg in zip(axes, args, strict=True):
        if axis is None or isinstance(axis, int):
            out += [axis] * len(flatten(arg)[0])
        elif isinstance(axis, dict):
            entries = cast(dict[Any, Any], axis)
            out += _spread_axes(tuple([entries[k] for k in arg]), tuple(arg.values()))
        else:
            out += _spread_axes(axis, arg)
    return out


def _axis_of_examples(axis: int, x: Any) -> int:
    """`axis` of an argument, counted from the front."""
    if x.ndim == 0:
        raise ShapeError(
            f"vmap over axis {axis} of {describe(x.value)}: a number has no axis of examples. A "
            "list is a tree, each of whose elements is mapped over: of numbers write cr.asarray; "
            "an argument that all examples share has None in in_axes"
        )
    return normalize_axis(axis, x.ndim)


def _size(tensors: Sequence[Any], places: Sequence[int | None]) -> int:
    """How many examples: the size of every mapped axis."""
    sizes = {t.shape[a] for t, a in zip(tensors, places, strict=True) if a is not None}
    if len(sizes) != 1:
        shapes = [f"{t.shape} along {a}" for t, a in zip(tensors, places, strict=True)]
        what = "an argument with an axis of examples" if not sizes else "one number of examples"
        raise ShapeError(f"vmap needs {what}; the arguments are {', '.join(shapes)}")
    return sizes.pop()


# --- Running what was recorded, on all examples --------------------------------------------------


def _replay(outs: Sequence[Any], known: dict[Node, Any], size: int) -> list[Any]:
    """`outs`, recorded on the placeholders `known`, for all examples: with a new first axis."""
    done: dict[Node, Any] = dict(known)
    first = min([n.serial for n in known])
    steps = _unknown_nodes(outs, first)
    outside = _from_outside(steps, first)
    for node in steps:
        if any(n in done for n in node.inputs):
            done[node] = _step(node, done, outside, size)
    return [done[o.node] if o.node in done else broadcast_to(o, (size, *o.shape)) for o in outs]


def _unknown_nodes(outs: Sequence[Any], first: int) -> list[Node]:
    """The nodes younger than `first` whose values are not known, in the order of making."""
    found: set[Node] = set()
    stack: list[Node] = [o.node for o in outs if type(o.value) is Spec]
    while stack:
        node = stack.pop()
        if node in found or node.serial < first or node.op is None:
            continue
        found.add(node)
        pairs = zip(node.xs, node.inputs, strict=True)
        stack += [n for x, n in pairs if n is not None and isinstance(x, Spec | Node)]
    return sorted(found, key=lambda n: n.serial)


def _from_outside(steps: Sequence[Node], first: int) -> set[Node]:
    """Inputs of `steps` that something older than `first` could be differentiated through.

    The others depend only on places that the function made for itself: they are plain values.
    """
    outside: set[Node] = set()
    for node in reversed(order([n for step in steps for n in step.inputs if n and n.needs])):
        if node.serial < first or any(n in outside for n in node.inputs):
            outside.add(node)
    return outside


def _step(node: Node, done: dict[Node, Any], outside: set[Node], size: int) -> Any:
    """One op on all examples; recorded as it was recorded for one."""
    op = node.op
    assert op is not None
    if isinstance(op, Pick):
        parent = node.inputs[0]
        assert parent is not None
        return done[parent][op.index]
    batched = [n in done for n in node.inputs]
    xs = [
        done[n] if n in done else _share(x, n, outside)
        for x, n in zip(node.xs, node.inputs, strict=True)
    ]
    off = not node.needs and any(n is not None and n.needs for n in node.inputs)
    with recording(False if off else is_recording()):
        if size == 0:
            return no_examples(node.shape, node.dtype, xs)
        if isinstance(op, Call):
            return _one_by_one(op, xs, batched, size)
        return batch(op, xs, batched, size)


def _share(x: Any, node: Node | None, outside: set[Node]) -> Any:
    """A value that all examples share, with its place in the graph outside."""
    if isinstance(x, Variable) or not hasattr(x, "shape"):
        return x
    return variable(x, node if node in outside or type(x) is Spec else None)


def _one_by_one(op: Call, xs: Sequence[Any], batched: Sequence[bool], size: int) -> Any:
    """A user's Function on each example: every call has a context of its own."""
    rows: list[Any] = []
    for i in range(size):
        args = list(op.static)
        for place, x, b in zip(op.tensor_positions, xs, batched, strict=True):
            args[place] = x[i] if b else x
        rows.append(op.function.apply(*args))
    if op.many:
        return tuple([stack(parts) for parts in zip(*rows, strict=True)])
    return stack(rows)
