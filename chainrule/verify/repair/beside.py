"""A value and the named arrays beside it, in each turn of a loop: what terms are made of."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chainrule.verify.repair.pool import fills, named, with_axes
from chainrule.verify.repair.response import Response
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.subject import Array


@dataclass(frozen=True, eq=False)
class Beside:
    """Outside of loops, there is one turn."""

    values: tuple[Array, ...]
    arrays: tuple[dict[str, Array], ...]

    @staticmethod
    def of(scene: Scene, response: Response) -> Beside:
        """What stands beside a node when it is evaluated."""
        arrays = [named(scene, response.node, visit) for visit in response.visits]
        return Beside(response.values, tuple(arrays))

    @cached_property
    def names(self) -> list[str]:
        """Names that are there in every turn."""
        return [k for k in self.arrays[0] if all(k in turn for turn in self.arrays)]

    @cached_property
    def partners(self) -> list[str]:
        """Those of them that have the shape of the value."""
        return [k for k in self.names if all(a.shape == e.shape for e, a in self._pairs(k))]

    @property
    def masks(self) -> list[str]:
        """Those of them that hold nothing but zeros and ones."""
        return [
            k for k in self.partners if all(set(np.unique(t[k])) <= {0, 1} for t in self.arrays)
        ]

    @cached_property
    def shape(self) -> Shape:
        """The value's shape, in the first turn."""
        return self.values[0].shape

    def fills(self, name: str) -> bool:
        """Whether a named array broadcasts to the value."""
        return all(fills(a.shape, e.shape) for e, a in self._pairs(name))

    def _pairs(self, name: str) -> list[tuple[Array, Array]]:
        return [(e, turn[name]) for e, turn in zip(self.values, self.arrays, strict=True)]

    def each(self, f: Callable[..., Any], name: str = "") -> Array | None:
        """What a function of the value and a named array gives, spread to the value's shape, of all
        turns one after the other; None if it gives another shape, or fails."""
        found = list[Array]()
        for e, turn in zip(self.values, self.arrays, strict=True):
            try:
                with np.errstate(all="ignore"):
                    value = np.asarray(f(e, turn.get(name)))
            except (ValueError, TypeError):
                return None
            if not fills(value.shape, e.shape):
                return None
            found.append(np.broadcast_to(value, e.shape).reshape(-1))
        return found[0] if len(found) == 1 else np.concatenate(found)

    @cached_property
    def with_products(self) -> Beside:
        """The same with partners times smaller arrays that broadcast, or divided by them: what was
        normalised, and is not kept."""
        arrays = [dict(turn) for turn in self.arrays]
        for a, b in itertools.product(self.partners, self.names):
            if b in self.partners or not self.fills(b):
                continue
            divides = all(np.all(turn[b] != 0) for turn in self.arrays)
            for turn in arrays:
                turn[f"({a} * {b})"] = turn[a] * turn[b]
                if divides:
                    turn[f"({a} / {b})"] = turn[a] / turn[b]
        return Beside(self.values, tuple(arrays))

    @cached_property
    def with_axes(self) -> Beside:
        """The same with arrays of fewer axes, spread over the value by axes of length 1."""
        arrays = [dict(turn) for turn in self.arrays]
        for name in self.names:
            for text, shape, _ in with_axes(name, self.arrays[0][name].shape, len(self.shape)):
                if text != name and fills(shape, self.shape):
                    for turn in arrays:
                        turn[text] = turn[name].reshape(shape)
        return Beside(self.values, tuple(arrays))
