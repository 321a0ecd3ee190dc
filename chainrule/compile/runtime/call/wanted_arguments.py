"""The arguments that a steady call takes: their classes, shapes, dtypes, and sizes that agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import READY
from chainrule.compile.runtime.call.declared_axes import Axes
from chainrule.engine.tensors import Tensor

Kind = tuple[Any, tuple[Any, ...], Any, int | None]
"""Class, shape and dtype of an argument, in which None is any size; and the number of axes where
all of them are."""


@final
class Wanted:
    """What the arguments are to be like. `axes` are the names of sizes that may be any: those of
    one name are one size. `places` are the arguments that the program reads."""

    def __init__(self, kinds: Sequence[Kind], axes: Sequence[Axes], places: list[int]) -> None:
        self.kinds, self.axes, self.places = kinds, axes, places
        named = [(s, i, a) for i, names in enumerate(axes) for a, s in names.items()]
        first = {s: (i, a) for s, i, a in reversed(named)}
        self._agree = [(*first[s], i, a) for s, i, a in named if (i, a) != first[s]]
        self._all = places == list(range(len(kinds)))

    def arrays(self, args: Sequence[Any]) -> list[Any] | None:
        """The arrays of arguments that are like these; None if they are not."""
        if len(args) != len(self.kinds):
            return None
        values: list[Any] = []
        for x, (kind, shape, dtype, loose) in zip(args, self.kinds, strict=False):
            if x.__class__ is not kind:
                return None
            a = x
            if kind is Tensor:
                a = x.value
                n = x.node
                if (n is not None and n.needs) or a.__class__ is not np.ndarray:
                    return None
            if a.shape != shape and not (
                len(a.shape) == loose if loose is not None else _fits(a.shape, shape)
            ):
                return None
            if a.dtype != dtype or a.flags.num & READY != READY:
                return None
            values.append(a)
        for i, a, j, b in self._agree:
            if values[i].shape[a] != values[j].shape[b]:
                return None
        return values if self._all else [values[i] for i in self.places]


def kind_of(x: Any, named: Axes) -> Kind:
    """What further arguments are to be like that come where `x` stands; axes that are `named` have
    any size."""
    kind = x.__class__
    shape = tuple([None if a in named else n for a, n in enumerate(x.shape)])
    return kind, shape, x.dtype, x.ndim if len(named) == x.ndim else None


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a shape is the wanted one; None stands for any size. Short: every call asks."""
    if len(shape) != len(wanted):
        return False
    for n, m in zip(shape, wanted, strict=False):  # noqa: SIM110
        if m is not None and n != m:
            return False
    return True
