"""Local derivatives of nodes of autograd's graph, asked while a backward pass goes through them.

A form that is stated (see `forms`) holds where it gives what the node's own rule gives for this
pass's upstream gradient; otherwise the rule is asked for its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from chainrule.traces.keeping import is_array
from chainrule.traces.local_derivatives.sparse import Rule, sparse_form
from chainrule.traces.pytorch.calls import as_list, is_python_function
from chainrule.traces.pytorch.forms import stated_form
from chainrule.traces.pytorch.graph import Event
from chainrule.traces.trace import NO_FACTOR, Factor, Local, Opaque, Product, Scatter

_torch: Any = torch
_core: Any = torch._C  # pyright: ignore[reportPrivateUsage]
SEVERAL = "this op has several outputs"
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError)


def local_of_node(
    event: Event,
    edge: int,
    inputs: Sequence[Event],
    g: Any,
    takes: Callable[[int], bool],
    args: Sequence[Any],
) -> Local:
    """The local derivative for edge number `edge` of a node, whose upstream gradient is `g`.

    `inputs` are the events of its inputs; `args` the arguments of a function that a user wrote.
    """
    place = event.input_positions[edge]
    target = inputs[place]
    name = f"∂ {event.op} / ∂ input {place + 1}"
    if len(event.node._input_metadata) != 1:
        return Opaque(SEVERAL, name)
    if not all(takes(int(np.prod(e.shape))) for e in (event, target)):
        return Opaque("its arrays are too large to be kept", name)
    if "complex" in event.dtype + target.dtype:
        return Opaque("its numbers are complex", name)
    rule = _rule(event, edge, target, args)
    try:
        stated = None
        if event.call is not None:
            stated = stated_form(event.call, place, [e.kept for e in inputs], event.kept)
        if stated is not None and is_array(g) and _holds(stated, rule, inputs, target, g):
            return stated
        return _by_element(sparse_form(rule, name), event, target)
    except _REFUSALS as error:
        return Opaque(f"its rule cannot be asked again: {str(error).splitlines()[0]:.80}", name)


def _by_element(local: Local, event: Event, target: Event) -> Local:
    """What sends each element where it came from, as a factor."""
    if not isinstance(local, Scatter) or local.rule == "1" or event.shape != target.shape:
        return local
    if not np.array_equal(local.target, np.arange(len(local.target))):
        return local
    return Factor(local.coefficients.reshape(event.shape), "slope(x)")


def _rule(event: Event, edge: int, target: Event, args: Sequence[Any]) -> Rule:
    node = event.node
    k = [i for i, (n, _) in enumerate(node.next_functions) if n is not None][edge]
    dtype = node._input_metadata[0].dtype

    def pull(g: Any) -> Any:
        with torch.no_grad(), _core.DisableTorchFunction():
            bars = _ask_rule(node, _torch.from_numpy(np.array(g)).to(dtype), args)
        bar = bars[k]
        if bar is None:
            return np.zeros(target.shape)
        return bar.sum_to_size(target.shape).double().cpu().numpy()

    return Rule(pull, None, target.shape, event.shape, torch.finfo(dtype).eps)


def _ask_rule(node: Any, g: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The rule's gradients, one for each of `next_functions`."""
    if not is_python_function(node):
        return as_list(node(g))
    bars = as_list(node.apply(g))
    return [b for b, a in zip(bars, args, strict=True) if isinstance(a, torch.Tensor)]


def _holds(local: Local, rule: Rule, inputs: Sequence[Event], target: Event, g: Any) -> bool:
    """Whether a stated form gives what the rule gives."""
    if not np.isfinite(g).all():
        return False
    bar, wide = rule.pull(g), g.astype(np.float64)
    with np.errstate(all="ignore"):
        if isinstance(local, Product):
            others = [i for i in range(len(local.letters)) if i != local.place]
            others = [i for i in others if local.letters[i] != NO_FACTOR]
            arrays: list[Any] = [inputs[i].kept for i in others]
            if not all(is_array(x) for x in arrays):
                return False
            terms = ",".join([local.out, *[local.letters[i] for i in others]])
            found = np.einsum(f"{terms}->{local.letters[local.place]}", wide, *arrays)
            size = np.abs(found).max(initial=0.0)
        elif isinstance(local, Factor):
            parts = wide * local.values
            found, size = _sum_to_shape(parts, target.shape), np.abs(parts).max(initial=0.0)
        else:
            return False
    close = 64 * rule.epsilon * max(1, rule.sizes[1]) * float(size)
    return bool(np.isfinite(found).all() and (np.abs(found - bar) <= close + 1e-300).all())


def _sum_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """The sum over axes along which an array of `shape` was repeated."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead))) if lead > 0 else x
    axes = tuple([i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1])
    return np.broadcast_to(x.sum(axis=axes, keepdims=True) if axes else x, shape)
