"""How the methods of hand-written layers are called, and where they leave what they compute.

A value and its gradients may come in one go: `loss, grads = net.loss(x, y)`, `cost, g = f(theta)`.
One function is the forward and the backward then. Its first result is the forward's; what it
returns behind that, or leaves in its object, are gradients of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from chainrule.errors import ConfigError
from chainrule.verify.arrays.convention import Convention, Slot, as_list
from chainrule.verify.arrays.members import Way, attributes
from chainrule.verify.arrays.naming_conventions import gradient_of, last_names
from chainrule.verify.arrays.returned_gradients import (
    Returned,
    gradients_in,
    is_container,
    names_on,
)
from chainrule.verify.arrays.values import is_float
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import EXACT

METHODS = (
    ("forward", "backward"),
    ("__call__", "backward"),
    ("loss", "backward"),
    ("forward", "backprop"),
    ("forward", "gradient"),
    ("loss", "gradient"),
)
"""How people call the two, the most usual first."""
_OUTPUTS = ("output", "out", "outputs", "y", "result")


def methods_of(x: Any, args: Sequence[Any] | None = None) -> tuple[str, str] | None:
    """The names of the forward (one that takes `args`, if given) and the backward of an object.

    None if it has not both.
    """
    cls = cast(Any, type(x))
    for forward, backward in METHODS:
        both = _defines(cls, forward) and _defines(cls, backward)
        if both and (args is None or takes(getattr(x, forward), args)):
            return forward, backward
    return None


def _defines(cls: Any, name: str) -> bool:
    """Whether objects of a class have such a method; a class itself can always be called."""
    if name == "__call__" and not any(name in vars(c) for c in cls.__mro__):
        return False
    return callable(getattr(cls, name, None))


def takes(f: Any, args: Sequence[Any]) -> bool:
    """Whether `f` can be called with these arguments, as far as Python can tell."""
    try:
        inspect.signature(f).bind(*args)
    except TypeError:
        return False
    except ValueError:  # no signature
        return True
    return True


def functions_of(x: Any) -> list[Any]:
    """What the class of an object defines, and those that it derives from."""
    found: list[Any] = []
    for cls in type(x).__mro__:
        if cls is not object:
            found += list(vars(cls).values())
    return found


def results_of(layer: Any, result: Any) -> list[Any]:
    """What a forward returned; what it left in the layer, if it returned nothing."""
    if result is not None:
        return as_list(result)
    kept = attributes(layer)
    left = [kept[name] for name in _OUTPUTS if kept.get(name) is not None]
    if not left:
        raise ConfigError(
            f"pair: the forward of {type(layer).__name__} returned None and left no array named "
            f"{', '.join(_OUTPUTS)}: return the output"
        )
    return left[:1]


def split(
    returned: Any, arguments: Sequence[str], layer: Any, backward: Any
) -> tuple[list[Any], list[Returned]]:
    """The gradients of the arguments, and the others that were returned.

    A tuple begins with those of the arguments; the others have the names of the `return`. An
    argument for which nothing was returned may have its gradient left in the layer, `dinputs`, say.
    """
    rest: list[Returned] = []
    out: list[Any] = [None] * len(arguments)
    parts = list(cast("list[Any]", returned)) if isinstance(returned, tuple | list) else [returned]
    for i, (name, part) in enumerate(zip(last_names(len(parts), backward), parts, strict=True)):
        way = Way().item(i) if name is None else Way().attribute(name)
        if is_container(part):
            rest += gradients_in(part, way)
        elif i < len(out):
            out[i] = part
        else:
            rest += gradients_in(part, way)
    kept = {**attributes(layer), **{name: r.value for r in rest for name in names_on(r.way)[-1:]}}
    for key, value in kept.items():
        owner = gradient_of(key, list(arguments))
        if owner is not None and is_float(value) and key not in arguments:
            i = arguments.index(owner)
            out[i] = value if out[i] is None else out[i]
    return out, rest


VALUE_METHODS = (
    "loss", "loss_and_grad", "loss_and_grads", "loss_and_gradient", "loss_and_gradients",
    "loss_grad", "loss_grads", "value_and_grad", "value_and_grads", "cost", "cost_and_grad",
    "cost_and_gradient", "cost_and_gradients", "forward_backward", "compute_loss", "objective",
)  # fmt: skip
"""What people call a method that gives both."""


def value_method_of(x: Any, args: Sequence[Any]) -> str | None:
    """The name of such a method that takes `args`; None if there is none. Whether it does what its
    name says is seen when it runs."""
    found = [n for n in VALUE_METHODS if callable(getattr(cast(Any, type(x)), n, None))]
    return next((n for n in found if takes(getattr(x, n), args)), None)


def gives_both(result: Any) -> bool:
    """Whether a result is one number, and something behind it with floats in it."""
    parts = as_list(result)
    behind = [r.value for part in parts[1:] for r in gradients_in(part, Way())]
    floats = any(is_float(x) or isinstance(x, float) for x in behind)
    return len(parts) > 1 and np.size(parts[0]) == 1 and floats


def convention_of(names: Sequence[str]) -> Convention:
    """All arguments, and one output."""
    slots = [(name, Slot("input", i)) for i, name in enumerate(names)]
    return Convention(tuple(slots), 1, by_name=False, at_once=True, of_parameters=True)


def gradients_behind(result: Any, value: Array | None) -> Any:
    """What stands behind the value; an empty dict for nothing.

    `ValueError` if the value is not what it should be: gradients of another function are none.
    """
    first, *rest = as_list(result)
    if value is not None and not np.allclose(first, value, rtol=EXACT, atol=0, equal_nan=True):
        raise ValueError(f"the value became {first}, and was {value}")
    if not rest:
        return {}
    return rest[0] if len(rest) == 1 else tuple(rest)
