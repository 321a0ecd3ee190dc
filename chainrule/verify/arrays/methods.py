"""How the methods of hand-written layers are called, and where they leave what they compute."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, cast

from chainrule.errors import ConfigError
from chainrule.verify.arrays.convention import as_list
from chainrule.verify.arrays.members import Way, attributes
from chainrule.verify.arrays.naming import gradient_of, last_names
from chainrule.verify.arrays.returned import Returned, gradients_in, is_container, names_on
from chainrule.verify.arrays.values import is_float

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
