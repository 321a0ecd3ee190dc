"""What comes back of elements that the forward reads by their indices, and takes from every row."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import elements, writes
from chainrule.verify.repair.watch import plain, shape_of
from chainrule.verify.repair.wording import forward_texts
from chainrule.verify.trees import tree_of

_COST = 1.1


def taken_back(scene: Scene) -> Iterator[Edit]:
    """Of `scores - scores[rows, y][:, None]`, the elements that are read take back what their row
    is given: `d[rows, y] -= d.sum(axis=1)`, behind the statement that makes `d`."""
    places = list(_places(scene))
    written = {scene.draft.src(target) for _, target, _ in writes(scene.draft.statements)}
    for statement in scene.draft.statements if places else ():
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
                shape = shape_of(scene.watched.names.get(name)) or ()
            case _:
                continue
        for where, axes in places:
            here = f"{name}[{where}]"
            if len(shape) == axes > 1 and here not in written and _is_last(scene, statement, name):
                yield from [_behind(scene, statement, t) for t in _texts(scene, name, here, axes)]


def _texts(scene: Scene, name: str, here: str, axes: int) -> Iterator[str]:
    """Statements that take the total along one axis off, or add it."""
    for axis in reversed(range(axes)):
        total = f"{name}.sum({scene.dialect.along(axis, False)})"
        yield from (f"{here} -= {total}", f"{here} += {total}")


def _places(scene: Scene) -> Iterator[tuple[str, int]]:
    """Indices by which the forward reads elements, all of them arrays that the backward knows, and
    how many axes they are of."""
    seen = set[str]()
    for text in forward_texts(scene.draft.source):
        for node in ast.walk(tree_of(text)):
            if not isinstance(node, ast.Subscript):
                continue
            where, parts = ast.unparse(node.slice).strip("()"), elements(node.slice)
            if where not in seen and len(parts) > 1 and all(_is_index(scene, e) for e in parts):
                seen.add(where)
                yield where, len(parts)


def _is_index(scene: Scene, node: ast.expr) -> bool:
    held = scene.watched.names.get(node.id) if isinstance(node, ast.Name) else None
    value = plain(held)
    return value is not None and value.ndim > 0 and value.dtype.kind in "iu"


def _is_last(scene: Scene, statement: ast.stmt, name: str) -> bool:
    """Whether no later statement changes a name once more."""
    start = scene.draft.span(statement)[0]
    stored = [n for n in scene.draft.nodes if isinstance(n, ast.Name) and n.id == name]
    later = [n for n in stored if isinstance(n.ctx, ast.Store) and scene.draft.span(n)[0] > start]
    return not later


def _behind(scene: Scene, statement: ast.stmt, text: str) -> Edit:
    """A statement more, in a line of its own."""
    end = scene.draft.span(statement)[1]
    start = scene.draft.span(statement)[0]
    line = scene.draft.body[:start].rpartition("\n")[2]
    indent = line if line.isspace() else ""
    new = f"\n{indent}{text}" if indent else f"; {text}"
    return Edit(end, end, new, "missing_term", _COST, f"`{text}` is added")
