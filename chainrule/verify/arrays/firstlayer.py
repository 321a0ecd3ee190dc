"""A layer whose backward gives the gradients of its parameters alone.

The first layer of a network needs none for its input: `return x.T @ dz, dz.sum(axis=0)`. What comes
back in order is then the parameters', and nobody asks for the input's.
"""

# pyright: reportPrivateUsage=false
# (how a layer hands out what came back is shared with this file)

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.verify.arrays import parameters
from chainrule.verify.arrays.methods import split
from chainrule.verify.arrays.parameters import value_of
from chainrule.verify.arrays.returned import is_container
from chainrule.verify.arrays.values import is_float
from chainrule.verify.copies import twins
from chainrule.verify.subject import Array

if TYPE_CHECKING:
    from chainrule.verify.arrays.layer import Layer


def with_meaning(layer: Layer, after: Any, returned: Any) -> Layer:
    """The layer; if what its backward returned (`after` is the object that ran) can only be the
    parameters' gradients, with a convention that says so.

    It is, if there are as many as parameters, none of which has a gradient elsewhere, each has its
    parameter's shape, and those that would be the arguments' have not theirs. Where shapes fit
    both, as in a square layer, a longer batch tells.
    """
    if layer.convention.of_parameters or not _fits_parameters(layer, after, returned):
        return layer
    alone = replace(layer, convention=replace(layer.convention, of_parameters=True))
    if not _fits_arguments(layer, [x.value for x in layer.inputs], returned):
        return alone
    return alone if _longer_batch_tells(layer) else layer


def _fits_parameters(layer: Layer, after: Any, returned: Any) -> bool:
    _, rest = split(returned, [], after, getattr(after, layer.names[1]))
    if not rest or not all(is_float(r.value) for r in rest):
        return False
    found = parameters.find(layer.owner, after, rest)
    if len(found) != len(rest) or any(p.grad is not None for p in found.values()):
        return False
    old = [value_of(p, layer.owner) for p in found.values()]
    bars = replace(layer, parameters=found)._of_parameters(after, rest, old)
    return all(np.shape(b) == x.shape for b, x in zip(bars, old, strict=True))


def _fits_arguments(layer: Layer, xs: list[Any], returned: Any) -> bool:
    """Whether what came back first can be the gradients of the arguments."""
    parts = _parts(returned)
    floats = [x for x in xs[: layer.count] if is_float(x)]
    given = xs[: layer.count] if len(parts) >= layer.count else floats
    pairs = zip(given, parts, strict=False)
    return all(not is_container(b) and np.shape(x) == np.shape(b) for x, b in pairs)


def _longer_batch_tells(layer: Layer) -> bool:
    """Whether a batch of twice the length gives gradients of the parameters' shapes still."""
    xs = [_doubled_length(x.value) for x in layer.inputs]
    try:
        owner = layer.copied(twins(xs), pulls=True)
        gs = [np.ones(y.shape, y.dtype) for y in layer.forward(xs)]
        _, returned = layer.returned(owner, twins(xs), gs)
    except Exception:  # It is made for this length: nothing tells.
        return False
    return _fits_parameters(layer, owner, returned) and not _fits_arguments(layer, xs, returned)


def _doubled_length(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        return x
    array = cast("Array", x)
    return np.concatenate([array, array]) if array.ndim else array


def _parts(returned: Any) -> list[Any]:
    return list(cast("list[Any]", returned)) if isinstance(returned, tuple | list) else [returned]
