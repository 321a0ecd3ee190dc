"""Experiments on a version of the code: what becomes of the gradients if one expression changes.

Gradients are affine in the weight of nearly every expression of a backward. So two runs tell for
which weight they would be right: -1 is a sign, 1/B a missing mean, 0 a term too much.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from chainrule.verify.repair.code.draft import Draft
from chainrule.verify.repair.problem import Problem
from chainrule.verify.repair.target import GOOD, Target
from chainrule.verify.repair.values.response import Effect
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import Watched
from chainrule.verify.subject import Array, Subject, extent
from chainrule.verify.tolerances import LOOSE

NEAR = 2e-5
"""Relative error up to which a fitted weight is a number that the code could have meant."""
Values: TypeAlias = tuple[float, ...]
"""A number at one point, or at two of different sizes."""


@dataclass(frozen=True, eq=False)
class Lab:
    """A scene, and the target at which it was seen."""

    scene: Scene
    target: Target
    x_bars: tuple[Array | None, ...]
    """What the version gives, unchanged."""
    subject: Subject
    """The subject with the watched version as its backward."""
    problem: Problem

    def run(self, changes: Mapping[int, Callable[[Any], Any]]) -> tuple[Array | None, ...] | None:
        """x_bars with values of nodes changed on the way; None if that fails."""
        watched = self.scene.watched
        watched.changes = changes
        try:
            return self.problem.run(self.subject, self.target)
        finally:
            watched.changes = {}

    @cached_property
    def at_other_sizes(self) -> Lab | None:
        """The same version at a point of other sizes at which it is wrong; None without one."""
        shapes = [extent(x) for x in self.target.xs]
        for other in self.problem.targets:
            here = [extent(x) for x in other.xs]
            if here != shapes:
                found = laboratory(self.problem, self.scene.draft, other)
                return found if found is not None and found.wrong else None
        return None

    @cached_property
    def errors(self) -> dict[int, float]:
        """Of each wanted input."""
        return self.target.errors(self.x_bars)

    @cached_property
    def wrong(self) -> tuple[int, ...]:
        """Inputs whose gradients are wrong here."""
        return tuple([i for i, e in self.errors.items() if e > GOOD])

    def effect(self, node: ast.AST, change: Callable[[Any], Any]) -> Effect | None:
        """What a change of a node adds to each wrong gradient that has the right shape; None if it
        adds nothing or fails."""
        x_bars = self.run({self.scene.draft.index[node]: change})
        if x_bars is None:
            return None
        effects: Effect = {}
        for i in self.wrong:
            before, after = (
                self.target.expected[i].comparable(x[i]) for x in (self.x_bars, x_bars)
            )
            if before is not None and after is not None and np.any(after != before):
                effects[i] = after - before
        return effects or None

    def spoils(self, node: ast.AST) -> bool:
        """Whether more of a value makes a gradient wrong that is right: what the value should be
        times a number it can hardly be, then."""
        right = [i for i, e in self.errors.items() if e <= GOOD]
        after = self.run({self.scene.draft.index[node]: lambda v: v + v}) if right else None
        return after is not None and any(self.target.errors(after)[i] > GOOD for i in right)

    @cached_property
    def residuals(self) -> dict[int, Array]:
        """What is missing from each wrong gradient that has the right shape."""
        found = dict[int, Array]()
        for i in self.wrong:
            expected = self.target.expected[i]
            if (got := expected.comparable(self.x_bars[i])) is not None:
                found[i] = expected.right - got
        return found

    @cached_property
    def scales(self) -> dict[ast.expr, Effect]:
        """Of each expression that matters to a wrong gradient: what one more of it adds."""
        found = dict[ast.expr, Effect]()
        for node in self.scene.expressions:
            if _scalable(self.scene.value(node)) and not self._counts(node):
                effect = self.effect(node, lambda v: v + v)
                if effect is not None:
                    found[node] = effect
        return found

    def _counts(self, node: ast.expr) -> bool:
        """Whether a number is an axis, an index or a length, of which no gradient is a multiple."""
        if not isinstance(self.scene.value(node), int):
            return False
        parent = self.scene.draft.parents[node]
        if isinstance(parent, ast.keyword | ast.Call | ast.Subscript | ast.Slice | ast.Tuple):
            return True
        while isinstance(parent, ast.BinOp | ast.UnaryOp):
            parent = self.scene.draft.parents[parent]
        match parent:
            case ast.Subscript() | ast.Slice():
                return True
            case ast.Call(func=ast.Name(id=name)):
                return name in ("range", "min", "max", "len")
            case _:
                return False

    def fits(self, effects: Sequence[Effect]) -> list[tuple[float, ...]]:
        """Weights with which effects sum up to a residual: for each wrong input by itself, equal
        ones once."""
        found = list[tuple[float, ...]]()
        for i, residual in self.residuals.items():
            if not all(i in e for e in effects):
                continue
            columns = np.stack([e[i] for e in effects], axis=1)
            weights = np.linalg.lstsq(columns, residual, rcond=None)[0]
            rest = np.linalg.norm(residual - columns @ weights)
            size = np.linalg.norm(self.target.expected[i].right) + np.linalg.norm(residual)
            if rest <= LOOSE * size and np.all(np.isfinite(weights)):
                fit = tuple([float(w) for w in np.real(weights)])
                if not any(np.allclose(fit, f, rtol=LOOSE) for f in found):
                    found.append(fit)
        return found

    def likely(self, effects: Sequence[Effect]) -> tuple[list[int], list[tuple[int, int]]]:
        """Which effects, and which two of them, could sum up to a residual: all at once, by the
        normal equations."""
        one, two = set[int](), set[tuple[int, int]]()
        for i, residual in self.residuals.items():
            usable = [k for k, e in enumerate(effects) if i in e and np.any(e[i])]
            if not usable or np.iscomplexobj(residual):
                continue
            columns = np.stack([effects[k][i] / np.linalg.norm(effects[k][i]) for k in usable])
            total = float(np.linalg.norm(residual)) ** 2
            along, between = columns @ residual, columns @ columns.T
            one |= {usable[k] for k in np.flatnonzero(total - along**2 <= 1e-6 * total)}
            if len(residual) < 3:  # Any two effects sum up to two numbers.
                continue
            a, b = np.triu_indices(len(usable), 1)
            c = between[a, b]
            apart = np.maximum(1 - c * c, 1e-9)
            got = (along[a] ** 2 + along[b] ** 2 - 2 * c * along[a] * along[b]) / apart
            close = (total - got <= 1e-6 * total) & (apart > 1e-8)
            two |= {(usable[a[k]], usable[b[k]]) for k in np.flatnonzero(close)}
        return sorted(one), sorted(two)

    def weights(self, node: ast.expr, forms: Sequence[str], here: Sequence[float]) -> list[Values]:
        """The weights of terms that are added to a node, and what they must be at other sizes.

        `forms` are the terms as code, the node's own value called `VALUE`.
        """
        alone: list[Values] = [(w,) for w in here]
        plain_weights = all(abs(abs(w) - 1) < NEAR for w in here)
        if plain_weights or (there := self.at_other_sizes) is None:
            return alone
        effects = [there.adding(node, f) for f in forms]
        known = [e for e in effects if e is not None]
        if len(known) < len(forms):
            return alone
        for fit in there.fits(known):
            if all(a * b > 0 for a, b in zip(here, fit, strict=True)):
                return list(zip(here, fit, strict=True))
        return alone

    def adding(self, node: ast.expr, text: str) -> Effect | None:
        """What a term as code, added to a node in each turn, adds to each wrong gradient."""
        terms = [self.scene.evaluated(node, text, visit) for visit in self.scene.visits(node)]
        if not terms or any(m is None for m in terms):
            return None
        left = itertools.cycle(terms)
        return self.effect(node, lambda v: v + next(left))

    def mends(self, node: ast.expr, text: str) -> bool:
        """Whether code instead of a node, run in every turn, makes a wrong gradient right, and none
        that is right wrong."""
        watched = self.scene.watched
        watched.instead = self.scene.draft.index[node], compile(text, "<term>", "eval")
        try:
            return self._better(self.problem.run(self.subject, self.target))
        finally:
            watched.instead = None

    def helps(self, node: ast.expr, change: Callable[[Any], Any]) -> bool:
        """Whether a change of a node makes a wrong gradient right, and none that is right wrong."""
        return self._better(self.run({self.scene.draft.index[node]: change}))

    def _better(self, x_bars: tuple[Array | None, ...] | None) -> bool:
        errors = self.target.errors(x_bars)
        better = any(errors[i] <= GOOD for i in self.wrong)
        return better and all(e <= GOOD for i, e in errors.items() if i not in self.wrong)


def _scalable(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float | complex):
        return True
    kind = str(getattr(value, "dtype", ""))
    return "float" in kind or "complex" in kind


def laboratory(problem: Problem, draft: Draft, at: Target) -> Lab | None:
    """A version seen at a target; None if it does not run there."""
    try:
        watched = Watched(draft)
    except (SyntaxError, ValueError, StopIteration):
        return None
    subject = problem.source.replaced(watched.function)
    x_bars = problem.run(subject, at)
    if not watched.values:
        return None
    nothing: tuple[Any, ...] = tuple([None for _ in at.xs])
    errors = at.errors(x_bars)
    shapes = [e.shape for i, e in at.expected.items() if errors[i] > GOOD]
    gs = tuple([g.shape for g in at.gs])
    scene = Scene(draft, watched, tuple(shapes), gs, failures=problem.failures)
    return Lab(scene, at, nothing if x_bars is None else x_bars, subject, problem)
