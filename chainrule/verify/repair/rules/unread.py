"""What the backward computes, or takes out of what was saved, and never reads: nobody computes a
mean for nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, MUL, as_part
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import is_stored
from chainrule.verify.repair.watch import shape_of, spreads

_COMPUTED, _SAVED = 0.5, 0.8
"""How unlikely it is that a value was computed for nothing, and that one was saved so."""
_MOST = 24
"""Places in which one is put."""


def unread(scene: Scene) -> Iterator[Edit]:
    """The value put into what it fits to: `p * dp` to `p * (dp - inner)`."""
    names = list(_unread(scene))
    if not names:
        return
    places = [n for n in scene.expressions if scene.flows(n) and _is_operand(scene, n)]
    for name, cost in names:
        for node in [n for n in places if _fits(scene, name, n)][:_MOST]:
            yield from _with(scene, node, name, cost)


def _unread(scene: Scene) -> Iterator[tuple[str, float]]:
    """Names of arrays, and of numbers that were computed, that are given a value and never read,
    and how unlikely that is."""
    statements = [n for n in scene.draft.statements if isinstance(n, ast.Assign)]
    computed = {t.id for n in statements for t in n.targets if isinstance(t, ast.Name)}
    for name in sorted(scene.unread):
        value = scene.watched.names.get(name)
        if shape_of(value) or (name in computed and isinstance(value, float)):
            yield name, _COMPUTED if name in computed else _SAVED


def _is_operand(scene: Scene, node: ast.expr) -> bool:
    """Whether it is a name, a call or a product that something is computed of."""
    parent = scene.draft.parents.get(node)
    match node:
        case ast.Attribute() | ast.Call() | ast.Subscript():
            simple = True
        case ast.Name():
            simple = not is_stored(node)
        case ast.BinOp(op=ast.Mult() | ast.Div()):
            simple = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add | ast.Sub)
        case _:
            simple = False
    inside = isinstance(parent, ast.BinOp | ast.UnaryOp | ast.Assign | ast.Return | ast.Tuple)
    return simple and inside


def _fits(scene: Scene, name: str, node: ast.expr) -> bool:
    shape = shape_of(scene.watched.names.get(name))
    return shape == () or spreads(shape, scene.shape(node))


def _with(scene: Scene, node: ast.expr, name: str, cost: float) -> Iterator[Edit]:
    sums, factors = as_part(scene.draft, node, ADD), as_part(scene.draft, node, MUL)
    for sign in ("-", "+"):
        text = f"{sums} {sign} {name}"
        yield _put(scene, node, text, name, cost)
        for other in _factors(scene, node, name):
            yield _put(scene, node, f"{sums} {sign} {other} * {name}", name, cost + 0.4)
    for sign in ("*", "/"):
        text = _within(scene, node, f"{factors} {sign} {name}")
        yield scene.put(node, text, "factor", cost + 0.1)


def _factors(scene: Scene, node: ast.expr, name: str) -> list[str]:
    """Named arrays of the node's shape: what a mean may be weighted with."""
    shape = scene.shape(node)
    here = scene.draft.src(node)
    return [
        k for k, v in scene.arrays_at(node).items()
        if shape_of(v) == shape and k not in (name, here)
    ]  # fmt: skip


def _put(scene: Scene, node: ast.expr, text: str, name: str, cost: float) -> Edit:
    says = f"`{name}`, which nothing reads, has its part"
    edit = scene.put(node, _within(scene, node, text), "missing_term", cost)
    return Edit(edit.start, edit.end, edit.text, edit.code, cost, says)


def _within(scene: Scene, node: ast.expr, text: str) -> str:
    """In brackets, where something else is computed with it."""
    parent = scene.draft.parents.get(node)
    return f"({text})" if isinstance(parent, ast.BinOp | ast.UnaryOp) else text
