"""Programs on shorter inputs: changes are tried on some cases, or some times, and not on all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.candidates import Unit
from chainrule.verify.formulas.values import array_of, is_mask, is_plain

_LENGTH = 24


def shortened(unit: Unit) -> Unit:
    """The program with the first or later ones of the cases that most inputs have in common, so
    that masks still differ; itself if it does not run so."""
    arrays = [a for _, x in unit.inputs() if (a := _array(x)) is not None and a.ndim]
    lengths = Counter([len(a) for a in arrays if len(a) > _LENGTH])
    for length, count in lengths.most_common(1):
        masks = [a for a in arrays if len(a) == length and is_mask(a)]
        for start in range(0, length - _LENGTH + 1, _LENGTH):
            parts = [m[start : start + _LENGTH] for m in masks]
            if count > 1 and all(0 < p.sum() < p.size for p in parts):
                return _tried(unit, length, slice(start, start + _LENGTH))
    return unit


def _array(x: Any) -> Array | None:
    return array_of(x) if is_plain(x) else None


def _tried(unit: Unit, length: int, part: slice) -> Unit:
    lines = [replace(line, inputs=_part(line.inputs, length, part)) for line in unit.lines]
    made = Unit(unit.activation, lines)
    try:
        before, after = unit.run({}), made.run({})
    except Exception:  # whatever the user's code raises
        return unit
    return unit if before.values.keys() - after.values.keys() else made


def _part(inputs: Mapping[str, Any], length: int, part: slice) -> dict[str, Any]:
    return {name: _cut(x, length, part) for name, x in inputs.items()}


def _cut(value: Any, length: int, part: slice) -> Any:
    """A value without the other cases, along all axes that have so many."""
    x: Any = value
    if isinstance(x, tuple):
        return tuple([_cut(i, length, part) for i in cast("tuple[Any, ...]", x)])
    if isinstance(x, list):
        items = cast("list[Any]", x)
        return items[part] if len(items) == length else items
    array = _array(x)
    if array is None or not hasattr(x, "shape") or length not in array.shape:
        return x
    index = tuple([part if n == length else slice(None) for n in array.shape])
    made: Any = x[index]
    if isinstance(made, np.ndarray):
        return cast("Array", made).copy()
    return made.clone()
