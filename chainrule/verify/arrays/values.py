"""From what people pass to inputs of a subject: which arguments are differentiated, their names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.errors import DtypeError, GradientError, ShapeError, describe
from chainrule.verify.subject import Array, Input

_TARGET = re.compile(
    r"^(t|y|targets?|labels?|y_?(true|t|target|batch|train)|truth|gold|ground_truth|one_?hot|teacher"
    r"|(\w+_)?mask|masks|noise|(sample_)?weights?_per_\w+|lengths?)$"
)
"""What people call arguments that are compared with or chosen by, and not learnt through."""


def is_float(x: Any) -> bool:
    """Whether `x` is an array (or a NumPy number) of floats, bfloat16 included, or complex ones."""
    dtype = getattr(x, "dtype", None)
    if not isinstance(x, np.ndarray | np.generic) or dtype is None:
        return False
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def kept_lengths(values: Sequence[Any], told: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Of numbers that are kept elsewhere, and why, those that say how long an axis of `values` is,
    or how many elements some axes have together: each such length, why it must stay."""
    shapes = [cast("Array", x).shape for x in values if isinstance(x, np.ndarray)]
    spans = [s[i:j] for s in shapes for i in range(len(s)) for j in range(i + 1, len(s) + 1)]
    kept: dict[int, str] = {}
    for n, why in told:
        for span in spans:
            if n > 1 and math.prod(span) == n:
                kept |= {m: kept.get(m, why) for m in span if m > 1}
    return kept


def plain(x: Any) -> Any:
    """`x` as an input's value: NumPy numbers as arrays without axes, all else as it is."""
    return np.asarray(cast(Any, x)) if isinstance(x, np.generic) else x


def inputs_of(names: Sequence[str], args: Sequence[Any], wrt: Sequence[str | int] | None) -> Any:
    """An `Input` for each argument: float arrays are wanted, or those that `wrt` says.

    Python's floats count as settings beside arrays (see `with_answered`), and as the arguments
    where there is no array.
    Raises `GradientError` if nothing is left to differentiate.
    """
    alone = not any(is_float(x) for x in args)
    given = [np.float64(x) if alone and isinstance(x, float) else x for x in args]
    chosen = None if wrt is None else _chosen_names(names, wrt)
    inputs = tuple(
        [
            Input(name, plain(x), is_float(x) and (chosen is None or i in chosen))
            for i, (name, x) in enumerate(zip(names, given, strict=True))
        ]
    )
    if not any(x.wanted for x in inputs):
        shown = ", ".join([describe(x) for x in args]) or "nothing"
        raise GradientError(
            f"nothing to differentiate: the arguments are {shown}. Give at least one array of "
            "floats (integers count as indices and labels; write x.astype(float))"
        )
    return inputs


def _chosen_names(names: Sequence[str], wrt: Sequence[str | int]) -> set[int]:
    chosen: set[int] = set()
    for w in wrt:
        place = names.index(w) if w in names else w
        if not isinstance(place, int) or not -len(names) <= place < len(names):
            raise GradientError(f"wrt={w!r}: the arguments are {', '.join(names)}")
        chosen.add(place % len(names))
    return chosen


def without_unasked(
    inputs: Sequence[Input], bars: Sequence[Any], returned: Any, *, loss: bool
) -> tuple[Input, ...]:
    """The inputs, those not wanted for which no gradient came back and none is to be expected.

    Such are targets and masks, told by their names, and what stands behind the last argument of a
    loss that has one: data behind parameters.
    """
    alone = isinstance(returned, np.ndarray | np.generic | float)
    answered = [i for i, bar in enumerate(bars) if bar is not None]
    parts = len(cast("list[Any]", returned)) if isinstance(returned, tuple | list) else int(alone)
    last = max(answered, default=0) if parts == len(answered) else len(bars)
    return tuple(
        [
            replace(x, wanted=False)
            if bar is None and (_TARGET.match(x.name) or (loss and i > last))
            else x
            for i, (x, bar) in enumerate(zip(inputs, bars, strict=True))
        ]
    )


def with_answered(inputs: Sequence[Input], bars: Sequence[Any]) -> tuple[Input, ...]:
    """The inputs, numbers wanted for which a gradient came back: a step size is learnt as well."""
    return tuple(
        [
            replace(x, value=np.asarray(x.value), wanted=True)
            if isinstance(x.value, float) and _is_number(bar) and bar != 0
            else x
            for x, bar in zip(inputs, bars, strict=True)
        ]
    )


def _is_number(bar: Any) -> bool:
    return isinstance(bar, float | np.floating) or (is_float(bar) and bar.shape == ())


def as_output(y: Any, what: str) -> Array:
    """An output as an array; raises `DtypeError` for what is no number."""
    if isinstance(y, np.ndarray | np.generic | float | int | complex | list):
        array = np.asarray(cast(Any, y))
        if array.dtype.kind in "biu" + INEXACT:
            return array
    raise DtypeError(f"{what} returned {describe(y)}, which is no array of numbers")


def as_gradient(x_bar: Any) -> Array | None:
    """A gradient as the backward returned it, as an array; None for None.

    Raises `DtypeError` for what is neither.
    """
    return None if x_bar is None else as_output(x_bar, "the backward")


def times(g: Array, local: Any) -> Any:
    """The local derivative of a backward that takes no cotangent, times `g`.

    That of a loss is the gradient itself, one g for all; that of an elementwise function goes
    element by element. Raises `ShapeError` where it is neither.
    """
    if local is None:
        return None
    array = np.asarray(local)
    if g.size != 1 and g.shape != array.shape:
        raise ShapeError(
            f"the backward takes no cotangent, and returned {describe(array)} for an output of "
            f"shape {g.shape}: give it a parameter for the cotangent, named g or dout"
        )
    return array * (g.reshape(()) if g.size == 1 else g).astype(array.dtype)
