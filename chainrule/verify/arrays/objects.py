"""From an object to its subject: which of its methods are the pair, how its backward wants to be
called, and which of its arrays are parameters, as a first call shows.

The first layer of a network needs no gradient for its input: `return x.T @ dz, dz.sum(axis=0)`.
What comes back in order is then the parameters', and nobody asks for the input's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.errors import ConfigError, describe
from chainrule.verify.arrays import convention, methods, parameters, roles
from chainrule.verify.arrays.convention import Convention
from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import duplicate
from chainrule.verify.arrays.methods import methods_of, results_of, split
from chainrule.verify.arrays.parameters import value_of
from chainrule.verify.arrays.returned_gradients import is_container
from chainrule.verify.arrays.roles import Side
from chainrule.verify.arrays.values import inputs_of, is_float, without_unasked
from chainrule.verify.copies import twins
from chainrule.verify.streams import streams_drawn
from chainrule.verify.subject import Array, Input
from chainrule.verify.user_code import argument_names, place_of


def subject_of_layer(
    owner: Any,
    args: Sequence[Any],
    *,
    name: str | None = None,
    cotangent: Side | None = None,
    cache: bool | None = None,
    wrt: Sequence[str | int] | None = None,
    method: str | tuple[str, str] | None = None,
) -> Layer:
    """The subject of an object with `forward` and `backward` at `args`, or with one method that
    gives a value and its gradients: `method`, if they are not called as such are.

    Raises `ConfigError` if it has no such methods.
    """
    both = (method, method) if isinstance(method, str) else method
    names = both or _both_methods(owner, args)
    arguments = argument_names(getattr(owner, names[0]), len(args))
    made = _unread_layer(owner, name, names, arguments, args)
    layer, forward = made.copied(args), getattr(cast(Any, type(owner)), names[0])
    result, streams = streams_drawn(lambda: made.called(layer, twins(args)), (forward,))
    results, made = results_of(layer, result), replace(made, streams=streams)
    if made.convention.at_once:
        found = methods.convention_of(arguments)
    else:
        found = roles.find(
            getattr(owner, names[0]),
            getattr(owner, names[1]),
            arguments,
            results,
            partial(_why_not, made),
            side=cotangent,
            cache=cache,
            together=convention.outputs_in_tuple(result),
        )
    made = _with_parameters(replace(made, convention=found), arguments, args, wrt)
    if found.at_once and not methods.gives_both(tuple(results)) and not made.parameters:
        raise _no_gradients(made, results)
    return made


def _unread_layer(
    owner: Any, name: str | None, names: tuple[str, str], arguments: Sequence[str], args: Any
) -> Layer:
    """The subject before its first call: how its backward is called is not known yet."""
    cls = cast(Any, type(owner))
    return Layer(
        name or cls.__name__,
        tuple([Input(n, x, wanted=is_float(x)) for n, x in zip(arguments, args, strict=True)]),
        duplicate(owner),
        names,
        len(args),
        {},
        Convention((), 1, by_name=False, at_once=names[0] == names[1]),
        place=place_of(getattr(cls, names[0])),
        backward_place=place_of(getattr(cls, names[1])),
    )


def _no_gradients(made: Layer, results: Sequence[Any]) -> ConfigError:
    """The error for a method that gives a value and nothing that could be its gradients."""
    return ConfigError(
        f"pair: {made.name}.{made.names[0]} returned {', '.join(map(describe, results))}, and left "
        "no gradients: let it return a number and its gradients, or give an object with "
        "forward and backward"
    )


def _both_methods(owner: Any, args: Sequence[Any]) -> tuple[str, str]:
    """What the object calls its forward and its backward; raises `ConfigError` if it has none."""
    names = methods_of(owner, args)
    both = methods.value_method_of(owner, args)
    if names is None and both is None:
        raise ConfigError(
            f"pair: {describe(owner)} has no forward of {len(args)} arguments and backward, and no "
            "method that gives a loss and its gradients; give an object with both methods, or two "
            "functions: verify.pair(forward, backward, *args)"
        )
    return names or (both or "", both or "")


def _with_parameters(
    made: Layer, arguments: Sequence[str], args: Sequence[Any], wrt: Sequence[str | int] | None
) -> Layer:
    """The same with the parameters that a first backward shows, as inputs: by what it had left, if
    it raises."""
    after = made.copied(twins([x.value for x in made.inputs]), pulls=True)
    try:
        returned, ys = _try(made, after)
        made = with_meaning(made, after, returned)
        of_arguments, rest = made.parted(after, returned)
    except Exception:  # The examination will tell of it.
        if made.convention.at_once:
            raise
        returned, ys = None, made.forward([x.value for x in made.inputs])
        of_arguments, rest = [True] * len(arguments), []
    found = parameters.find(made.owner, after, rest, updated=made.convention.updates)
    values = [parameters.value_of(p, made.owner) for p in found.values()]
    inputs = inputs_of((*arguments, *found), (*args, *values), wrt)
    bars = [*of_arguments, *[True] * len(found)]
    if wrt is None:
        inputs = without_unasked(inputs, bars, returned, loss=[y.size for y in ys] == [1])
    if found and all(b is None for b in of_arguments):  # a first layer: nobody asks for its input's
        inputs = tuple(
            [
                replace(x, wanted=x.wanted and b is not None)
                for x, b in zip(inputs, bars, strict=True)
            ]
        )
    return replace(made, inputs=inputs, parameters=found)


def _try(made: Layer, layer: Any) -> tuple[Any, tuple[Array, ...]]:
    """What the backward of a copy of the object returned, and the outputs."""
    xs = twins([x.value for x in made.inputs])
    gs = [np.ones(y.shape, y.dtype) for y in made.forward(xs)]
    ys, returned = made.returned(layer, xs, gs)
    return returned, ys


def _why_not(layer: Layer, tried: Convention) -> tuple[int, str]:
    """As for pairs of functions: 2 if the backward raises, 1 if a gradient has another shape."""
    made = replace(layer, convention=tried)
    try:
        after = made.copied([x.value for x in made.inputs], pulls=True)
        returned, _ = _try(made, after)
        bars, _ = with_meaning(made, after, returned).parted(after, returned)
    except Exception as error:
        return 2, f"{type(error).__name__}: {error}"
    for x, bar in zip(made.inputs, bars, strict=True):
        if bar is not None and np.shape(bar) != np.shape(x.value):
            return 1, f"it gives {describe(bar)} for {x.name}, which is {describe(x.value)}"
    return 0, ""


# pyright: reportPrivateUsage=false
# (how a layer hands out what came back is shared with this file)


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
