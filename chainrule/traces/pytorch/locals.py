"""Local derivatives of nodes of autograd's graph, asked while a backward pass goes through them.

A form that is stated (see `forms`) holds where it gives what the node's own rule gives for this
pass's upstream gradient; otherwise the rule is asked for its entries. What a node saved under hooks
of the program's own (`torch.utils.checkpoint` has some) may be unpacked once, by the pass itself:
there a form holds where it gives what the pass gave, and the rule is not asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from chainrule.traces.kept_values import is_array
from chainrule.traces.local_derivatives.sparse import Rule, sparse_form
from chainrule.traces.pytorch.calls import as_list, is_python_function
from chainrule.traces.pytorch.forms import stated_form
from chainrule.traces.pytorch.graph import Event
from chainrule.traces.trace import NO_FACTOR, Factor, Local, Opaque, Product, Scatter

_torch: Any = torch
_core: Any = torch._C  # pyright: ignore[reportPrivateUsage]
SEVERAL = "this op has several outputs"
PACKED = (
    "what it saved is under hooks of the program (checkpointing, for one) and is unpacked only once"
)
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
    target = inputs[event.input_positions[edge]]
    unknown = _unknown(event, target, takes)
    name = _name(event, edge)
    if unknown:
        return Opaque(unknown, name)
    rule = _rule(event, edge, target, args)
    try:
        stated = _stated(event, edge, inputs)
        if stated is not None and _is_finite(g):
            bar = rule.pull(g)
            if _holds(stated, bar, rule.epsilon, event, inputs, target, g):
                return stated
        return _by_element(sparse_form(rule, name), event, target)
    except _REFUSALS as error:
        return Opaque(f"its rule cannot be asked again: {str(error).splitlines()[0]:.80}", name)


def local_of_packed_node(
    event: Event, edge: int, inputs: Sequence[Event], g: Any, bar: Any, takes: Callable[[int], bool]
) -> Local:
    """As `local_of_node`, after the node sent `bar` along that edge, without asking its rule."""
    target = inputs[event.input_positions[edge]]
    unknown = _unknown(event, target, takes)
    stated = None if unknown else _stated(event, edge, inputs)
    if stated is not None and _is_finite(g):
        epsilon = torch.finfo(event.node._input_metadata[0].dtype).eps
        if _holds(stated, _numbers(bar, target), epsilon, event, inputs, target, g):
            return stated
    return Opaque(unknown or PACKED, _name(event, edge))


def _unknown(event: Event, target: Event, takes: Callable[[int], bool]) -> str:
    """Why there is no local derivative to be known; empty where there may be."""
    if len(event.node._input_metadata) != 1:
        return SEVERAL
    if not all(takes(int(np.prod(e.shape))) for e in (event, target)):
        return "its arrays are too large to be kept"
    return "its numbers are complex" if "complex" in event.dtype + target.dtype else ""


def _name(event: Event, edge: int) -> str:
    return f"∂ {event.op} / ∂ input {event.input_positions[edge] + 1}"


def _stated(event: Event, edge: int, inputs: Sequence[Event]) -> Local | None:
    """The form that is stated for the call that made the node."""
    if event.call is None:
        return None
    return stated_form(
        event.call, event.input_positions[edge], [e.kept for e in inputs], event.kept
    )


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
        return _numbers(bars[k], target)

    return Rule(pull, None, target.shape, event.shape, torch.finfo(dtype).eps)


def _numbers(bar: Any, target: Event) -> Any:
    """What a rule sends to a target; None is 0."""
    if bar is None:
        return np.zeros(target.shape)
    return bar.detach().sum_to_size(target.shape).double().cpu().numpy()


def _ask_rule(node: Any, g: Any, args: Sequence[Any]) -> Sequence[Any]:
    """The rule's gradients, one for each of `next_functions`."""
    if not is_python_function(node):
        return as_list(node(g))
    bars = as_list(node.apply(g))
    return [b for b, a in zip(bars, args, strict=True) if isinstance(a, torch.Tensor)]


def _is_finite(g: Any) -> bool:
    return is_array(g) and bool(np.isfinite(g).all())


def _holds(
    local: Local,
    bar: Any,
    epsilon: float,
    event: Event,
    inputs: Sequence[Event],
    target: Event,
    g: Any,
) -> bool:
    """Whether a stated form gives `bar`, which is what the node's rule gives for `g`."""
    wide = g.astype(np.float64)
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
    close = 64 * epsilon * max(1, math.prod(event.shape)) * float(size)
    return bool(np.isfinite(found).all() and (np.abs(found - bar) <= close + 1e-300).all())


def _sum_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """The sum over axes along which an array of `shape` was repeated."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead))) if lead > 0 else x
    axes = tuple([i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1])
    return np.broadcast_to(x.sum(axis=axes, keepdims=True) if axes else x, shape)
