"""Python numbers in the place of arrays: `cr.softmax(0.5)`, as NumPy's functions take them.

Functions of arrays ask their arguments for a shape, which a number lacks. When a call has failed of
that, it is tried again with arrays in place of the numbers; a call that works pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast, get_args

import numpy as np

from chainrule.engine.misuse.argument_kinds import Array, Kind, kinds, signature_of

_NUMBERS = (bool, int, float, complex)


def numbers_as_arrays(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], cause: Exception
) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """The arguments of a call that failed, with arrays in place of numbers; None if it failed of
    something else. Beside a tensor or an array a number has no dtype of its own: it stays."""
    lacking = getattr(cause, "obj", getattr(cause.__cause__, "obj", None))
    if lacking.__class__ not in _NUMBERS:
        return None
    bound = signature_of(f).bind(*args, **kwargs)
    declared = kinds(f, arrays=True)
    given = {k: x for k, x in bound.arguments.items() if x is not None and _is_array(declared[k])}
    if not given or not all(map(_is_number, given.values())):
        return None
    bound.arguments.update({k: _converted(x) for k, x in given.items()})
    return bound.args, bound.kwargs


def _is_array(kind: Kind) -> bool:
    """Whether a kind is that of an array, of several, or of one that may be left out."""
    return kind is Array or Array in get_args(kind)


def _is_number(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return all(map(_is_number, cast("Sequence[Any]", x)))
    return x.__class__ in _NUMBERS


def _converted(x: Any) -> Any:
    return np.asarray(x) if x.__class__ in _NUMBERS else [_converted(each) for each in x]
