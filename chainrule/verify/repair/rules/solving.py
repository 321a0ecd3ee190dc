"""Systems of equations: solved with a matrix where its transpose belongs, and the other way."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import called
from chainrule.verify.repair.scene import Scene

_OPTIONS = {
    "lu_solve": (("adjoint", "True"), ("trans", "1")),
    "solve_triangular": (("trans", "1"),),
}
"""By what a function is told to take the transpose."""
_FLAGS = ("adjoint", "trans", "transpose", "upper", "lower", "left")
"""Keywords that are true or false and say which matrix is meant."""


def other_system(scene: Scene) -> Iterator[Edit]:
    """A flag turned over; the transpose asked for where the function can take it."""
    for node in scene.expressions:
        if not isinstance(node, ast.Call):
            continue
        given = {k.arg for k in node.keywords}
        for k in node.keywords:
            if k.arg in _FLAGS and isinstance(k.value, ast.Constant):
                yield from _turned(scene, k.value)
        for name, value in _OPTIONS.get(called(node), ()):
            if name not in given:
                whole = scene.draft.src(node).rstrip()
                text = f"{whole[:-1].rstrip().rstrip(',')}, {name}={value})"
                yield scene.put(node, text, "transposed", 1.1)


def _turned(scene: Scene, value: ast.Constant) -> Iterator[Edit]:
    if isinstance(value.value, bool):
        yield scene.put(value, str(not value.value), "transposed", 1.2)
    elif value.value in (0, 1):
        yield scene.put(value, str(1 - int(value.value)), "transposed", 1.2)
