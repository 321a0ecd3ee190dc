"""Where no repair was found: the value that alone explains what is wrong, by the fewest numbers.

A value that is made of no cotangent is the same for all of them: if one other value of it would
make the gradients right for two cotangents, it is wrong, or made of what is. Else: if some other
value of an expression would make a wrong gradient right, the mistake may be there. Of a whole
gradient that is no news, since it can be anything. But what an expression adds to a few elements,
or in a few directions, would hardly explain a difference by chance.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from chainrule.verify.repair.budget import SECONDS_FOR_SUSPECTS
from chainrule.verify.repair.code.syntax import names_in
from chainrule.verify.repair.expected.cotangents import given_name
from chainrule.verify.repair.expected.expected_values import Wrong, first_wrong, is_true
from chainrule.verify.repair.target import cotangents, target
from chainrule.verify.repair.values.lab import Lab, laboratory
from chainrule.verify.repair.values.loop_values import LARGEST, columns_of
from chainrule.verify.repair.values.response import (
    in_iterations,
    is_in_span,
    solve,
)
from chainrule.verify.repair.values.scene import Shape
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import ROUGH

_SPARE = 5
"""Numbers that cannot be brought about, and are right all the same: by chance they would not be."""
_NEWS = 0.75
"""An expression that can bring about more than this share of all differences explains nothing."""


def suspect(lab: Lab) -> tuple[ast.expr, str] | None:
    """The expression at which the mistake may be, and why."""
    wrong, fixed = first_wrong(lab), _of_no_cotangent(lab)
    if fixed is not None and _parts(fixed) > min(map(_parts, _beside(lab, wrong, fixed))):
        says = "would make it right, the same one for every cotangent"
        return fixed, f"{_another(lab, fixed)} {says}"
    least = _least_likely(lab) if wrong is None or wrong.by_name else None
    if wrong is not None and (least is None or not least.all_at_once):
        return wrong.node, wrong.says
    if least is None:
        return None
    return least.node, f"{_another(lab, least.node)} alone would make it right"


def _another(lab: Lab, node: ast.expr) -> str:
    return f"another value of `{lab.scene.draft.src(node)}`"


def _of_no_cotangent(lab: Lab) -> ast.expr | None:
    """The first value that is made of no cotangent, and of which one other value would mend all
    that is wrong, for two cotangents."""
    there, stop = _for_another_cotangent(lab), process_time() + SECONDS_FOR_SUSPECTS
    if there is None:
        return None
    labs = (lab, there)
    for node in lab.scene.roots:
        if process_time() > stop:
            break
        assigned = isinstance(lab.scene.draft.parents[node], ast.Assign)
        if lab.scene.flows(node) or not assigned or isinstance(node, ast.Name):
            continue
        if is_true(lab, node):
            continue
        found = [(b.residuals, _columns(b, node)) for b in labs]
        rows = [(c[i], r) for rs, c in found if c is not None for i, r in rs.items() if i in c]
        if rows and len(rows) == sum([len(b.residuals) for b in labs]) and _is_explained(rows):
            step, _ = solve(*zip(*rows, strict=True))
            if all(_brings_about(b, node, step) for b in labs):
                return node
    return None


def _brings_about(lab: Lab, node: ast.expr, step: Array) -> bool:
    """Whether a step of a node's values mends what is wrong: so it does if they enter linearly."""
    shapes = [s or () for s in lab.scene.watched.shapes[lab.scene.draft.index[node]]]
    ends = np.cumsum([_size(s) for s in shapes])[:-1]
    parts = [p.reshape(s) for p, s in zip(np.split(step, ends), shapes, strict=True)]
    effect = lab.effect(node, in_iterations(parts)) or {}
    return all(
        i in effect and np.linalg.norm(r - effect[i]) <= ROUGH * np.linalg.norm(r)
        for i, r in lab.residuals.items()
    )


def _beside(lab: Lab, wrong: Wrong | None, fixed: ast.expr) -> list[ast.expr]:
    """Where the mistake may be as well: in what is known to be wrong, in what reads the value."""
    name = given_name(lab.scene, fixed)
    readers = [n for n in lab.scene.roots if name in names_in(n) and lab.scene.flows(n)]
    return [wrong.node] if wrong is not None else readers or [fixed]


def _parts(node: ast.expr) -> int:
    """How much there is in an expression that can be wrong."""
    return sum([1 for _ in ast.walk(node)])


def _for_another_cotangent(lab: Lab) -> Lab | None:
    subject, xs = lab.problem.subject, lab.target.xs
    gs = cotangents(subject, xs, 2)
    made = None if gs is None else target(lab.target.name, subject, xs, gs, SECONDS_FOR_SUSPECTS)
    return None if made is None else laboratory(lab.problem, lab.scene.draft, made)


def _is_explained(rows: Sequence[tuple[Array, Array]]) -> bool:
    """Whether columns give what is missing everywhere, and could not give anything else."""
    columns, residual = (np.concatenate(part) for part in zip(*rows, strict=True))
    share = _freedom(columns)
    is_news = share < _NEWS or (1 - share) * len(columns) >= _SPARE
    return is_news and is_in_span(columns, residual)


@dataclass(frozen=True, eq=False)
class _Least:
    """A value of which another one would mend some gradients."""

    node: ast.expr
    mended: int
    share: float
    """How much of what these can be it can bring about."""
    all_at_once: bool
    """Whether one other value mends all that is wrong, which is more than one gradient."""


def _least_likely(lab: Lab) -> _Least | None:
    """The expression of which another value would mend most, and that can bring about least."""
    found = list[_Least]()
    stop = process_time() + SECONDS_FOR_SUSPECTS
    for node in reversed(lab.scene.roots):
        if process_time() > stop:
            break
        if lab.scene.flows(node) and (columns := _columns(lab, node)) is not None:
            mended = [i for i, c in columns.items() if is_in_span(c, lab.residuals[i])]
            share = max([_freedom(columns[i]) for i in mended], default=1.0)
            at_once = len(mended) > 1 and _is_explained(
                [(columns[i], lab.residuals[i]) for i in mended]
            )
            if at_once:
                share = _freedom(np.concatenate([columns[i] for i in mended]))
            if at_once or share < _NEWS:
                every = at_once and len(mended) == len(lab.residuals)
                found.append(_Least(node, len(mended), share, every))
    return min(found, key=lambda f: (-f.mended, f.share), default=None)


def _freedom(columns: Array) -> float:
    """The share of all differences that columns span."""
    size = float(np.linalg.norm(columns, 2))
    return float(np.linalg.matrix_rank(columns, tol=1e-7 * size)) / columns.shape[0]


def _columns(lab: Lab, node: ast.expr) -> dict[int, Array] | None:
    """For each wrong input, what each element of a node's value adds, in each turn of a loop."""
    shapes = lab.scene.watched.shapes.get(lab.scene.draft.index[node], [])
    if any(s is None for s in shapes) or not 0 < sum(_size(s) for s in shapes) <= LARGEST:
        return None
    found = columns_of(lab, node, [np.zeros(s or ()) for s in shapes])
    return {i: c for i, c in found.items() if np.any(c)}


def _size(shape: Shape | None) -> int:
    return math.prod(shape or ())
