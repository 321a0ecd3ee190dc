"""A value, what stands beside it in each iteration of a loop, and which other value would be right.

Each element is moved by itself: where gradients depend on it affinely, the right one is solved for.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from chainrule.verify.repair.values.expression_pool import fills, named_arrays, with_axes
from chainrule.verify.repair.values.lab import Lab
from chainrule.verify.repair.values.response import (
    Response,
    in_iterations,
    is_in_span,
    solvable,
    solve,
    unit,
)
from chainrule.verify.repair.values.scene import Scene, Shape
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import SAME


@dataclass(frozen=True, eq=False)
class LoopValues:
    """The values of one node, and the arrays named beside it, in each iteration of a loop.

    Outside of loops there is one iteration.
    """

    values: tuple[Array, ...]
    arrays: tuple[dict[str, Array], ...]

    @staticmethod
    def of(scene: Scene, response: Response) -> LoopValues:
        """What stands beside a node when it is evaluated."""
        arrays = [named_arrays(scene, response.node, visit) for visit in response.visits]
        return LoopValues(response.values, tuple(arrays))

    @cached_property
    def names(self) -> list[str]:
        """Names that are there in every turn."""
        return [k for k in self.arrays[0] if all(k in turn for turn in self.arrays)]

    @cached_property
    def partners(self) -> list[str]:
        """Those of them that have the shape of the value."""
        return [k for k in self.names if all(a.shape == e.shape for e, a in self._pairs(k))]

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
    def with_products(self) -> LoopValues:
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
        return LoopValues(self.values, tuple(arrays))

    def with_sums(self, names: Iterable[str], along: Callable[[int, bool], str]) -> LoopValues:
        """The same with sums of some arrays along each axis, which is kept."""
        arrays = [dict(turn) for turn in self.arrays]
        for name in [n for n in names if n in self.names]:
            for axis in range(-1, self.arrays[0][name].ndim - 1):
                for turn in arrays:
                    text = f"{name}.sum({along(axis, True)})"
                    turn[text] = turn[name].sum(axis=axis, keepdims=True)
        return LoopValues(self.values, tuple(arrays))

    @cached_property
    def with_axes(self) -> LoopValues:
        """The same with arrays of fewer axes, spread over the value by axes of length 1."""
        arrays = [dict(turn) for turn in self.arrays]
        for name in self.names:
            for text, shape, _ in with_axes(name, self.arrays[0][name].shape, len(self.shape)):
                if text != name and fills(shape, self.shape):
                    for turn in arrays:
                        turn[text] = turn[name].reshape(shape)
        return LoopValues(self.values, tuple(arrays))


LARGEST = 200
"""Elements of a value whose every element is moved."""


def columns_of(lab: Lab, node: ast.expr, values: Sequence[Array]) -> dict[int, Array]:
    """For each wrong input, what each element of a node's values adds, turn after turn."""
    size = sum([v.size for v in values])
    columns = {i: np.zeros((len(r), size), r.dtype) for i, r in lab.residuals.items()}
    for k in range(size):
        for i, effect in (lab.effect(node, unit(values, k)) or {}).items():
            columns[i][:, k] = effect
    return columns


def response_of(lab: Lab, node: ast.expr) -> Response | None:
    """How the wrong gradients depend on each element of a node's value, in each turn of a loop;
    None if it is no array of a size for that, or if they do not depend on it affinely.
    """
    values = [plain(v) for v, _ in lab.scene.visits(node)]
    floats = [v for v in values if v is not None and v.dtype.kind == "f"]
    size = sum([v.size for v in floats])
    if len(floats) < len(values) or not 0 < size <= LARGEST:
        return None
    if not all(np.all(np.isfinite(v)) for v in floats):
        return None
    visits = tuple(lab.scene.visits(node))
    found = Response(node, tuple(floats), columns_of(lab, node, floats), visits)
    step = np.random.default_rng(0).standard_normal(size)
    after = lab.effect(node, in_iterations(found.split(step))) or {}
    expected = found.effect(step)
    affine = all(
        np.allclose(after.get(i, 0.0), e, rtol=1e-6, atol=1e-9 * np.linalg.norm(e))
        for i, e in expected.items()
    )
    if not affine or not after:
        return None
    return found if len(values) == 1 else _with_right_turns(lab, found)


def _with_right_turns(lab: Lab, response: Response) -> Response:
    """The same, the values and names of each turn being those of a run in which the node is
    put right, if it can be: what one turn hands on to the next is right as well, then."""
    mended = mendable(lab, response)
    if not mended:
        return response
    residuals = [lab.residuals[i] for i in mended]
    step, sure = solve([response.columns[i] for i in mended], residuals)
    at, watched = lab.scene.draft.index[response.node], lab.scene.watched
    watched.noted = {at: []}
    lab.run({at: in_iterations(response.split(step))})
    visits, watched.noted = tuple(watched.noted[at]), {}
    values = [v for v in (plain(value) for value, _ in visits) if v is not None]
    same = [v.shape for v in values] == [v.shape for v in response.values]
    if not same:
        return response
    steps = zip(response.split(step), response.split(sure), strict=True)
    known = [(t, s) for t, (s, k) in enumerate(steps) if k.size and k.min() > 1 - SAME]
    needed = max(known, key=lambda n: float(np.linalg.norm(n[1])), default=None)
    return replace(response, values=tuple(values), visits=visits, needed=needed)


def mendable(lab: Lab, response: Response) -> frozenset[int]:
    """Wrong inputs whose gradients some value of a node would make right: all of them by one
    value, if there is one, else those that could be mended each by itself."""
    columns = {i: c for i, c in response.columns.items() if np.any(c)}
    if solvable(list(columns.values()), [lab.residuals[i] for i in columns]):
        return frozenset(columns)
    return frozenset([i for i, c in columns.items() if is_in_span(c, lab.residuals[i])])


def answers(lab: Lab, response: Response, value: Array) -> bool:
    """Whether a wrong gradient comes out right if a node has these values, turn after turn."""
    if value.shape != response.flat.shape or not np.all(np.isfinite(value)):
        return False
    effects = response.effect(value - response.flat)
    for i, residual in lab.residuals.items():
        size = np.linalg.norm(lab.target.expected[i].right) + np.linalg.norm(residual)
        if np.linalg.norm(effects[i] - residual) <= 1e-6 * size:
            return True
    return False
