"""Which values of a node would make the wrong gradients right.

Each element of a value is moved by itself, in each turn of a loop: where the gradients depend on it
affinely, what has to stand there can be solved for.
"""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np

from chainrule.verify.repair.lab import Lab
from chainrule.verify.repair.response import Response, in_turns, is_in_span, solvable, solved, unit
from chainrule.verify.repair.watch import plain
from chainrule.verify.subject import Array

LARGEST = 200
"""Elements of a value whose every element is moved."""
_SURE = 1e-6
"""How far from 1 it may be that an element of a step is the only one that helps."""


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
    columns = {i: np.zeros((len(r), size)) for i, r in lab.residuals.items()}
    for k in range(size):
        for i, effect in (lab.effect(node, unit(floats, k)) or {}).items():
            columns[i][:, k] = effect
    found = Response(node, tuple(floats), columns, tuple(lab.scene.visits(node)))
    step = np.random.default_rng(0).standard_normal(size)
    after = lab.effect(node, in_turns(found.parts(step))) or {}
    expected = found.effect(step)
    affine = all(
        np.allclose(after.get(i, 0.0), e, rtol=1e-6, atol=1e-9 * np.linalg.norm(e))
        for i, e in expected.items()
    )
    if not affine or not after:
        return None
    return found if len(values) == 1 else _put_right(lab, found)


def _put_right(lab: Lab, response: Response) -> Response:
    """The same, the values and names of each turn being those of a run in which the node is
    put right, if it can be: what one turn hands on to the next is right as well, then."""
    mended = mendable(lab, response)
    if not mended:
        return response
    residuals = [lab.residuals[i] for i in mended]
    step, sure = solved([response.columns[i] for i in mended], residuals)
    at, watched = lab.scene.draft.index[response.node], lab.scene.watched
    watched.noted = {at: []}
    lab.run({at: in_turns(response.parts(step))})
    visits, watched.noted = tuple(watched.noted[at]), {}
    values = [v for v in (plain(value) for value, _ in visits) if v is not None]
    same = [v.shape for v in values] == [v.shape for v in response.values]
    if not same:
        return response
    steps = zip(response.parts(step), response.parts(sure), strict=True)
    known = [(t, s) for t, (s, k) in enumerate(steps) if k.size and k.min() > 1 - _SURE]
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
