"""Slips in loops: what one turn hands on to the next, what is collected, what is set anew."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TypeGuard, cast

import numpy as np

from chainrule.verify.repair.addends import terms_of
from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, MUL, as_part, removed
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.syntax import elements, is_stored, loops_around, names_in
from chainrule.verify.repair.watch import plain, shape_of, spreads

_COUNTED = 1.3
"""How unlikely it is that a factor is missing which counts the turns."""
_FORMER = 0.5
"""How unlikely it is that a loop should hand on what it had as well."""


def handed_on(scene: Scene) -> Iterator[Edit]:
    """A term or factor that is missing in a loop: what one turn hands on to the next."""
    for node in scene.expressions:
        turns = scene.watched.turns[scene.draft.index[node]]
        shape = scene.shape(node)
        if turns < 2 or not shape or not (node in scene.roots or scene.flows(node)):
            continue
        for name, value in {**scene.arrays_at(node), **scene.rows_at(node)}.items():
            if shape_of(value) == shape and name != scene.draft.src(node):
                here = as_part(scene.draft, node, ADD)
                yield scene.put(node, f"{here} + {name}", "missing_term", 1.5)
                factor = as_part(scene.draft, node, MUL)
                yield scene.put(node, f"{factor} * {name}", "wrong_value", 1.8)


def carried(scene: Scene) -> Iterator[Edit]:
    """A cotangent that a loop hands on, made anew without the one before: `dh = da @ u` to
    `dh = da @ u + dh * (1 - z)`, the direct path of a gated cell."""
    for loop in [n for n in scene.draft.nodes if isinstance(n, ast.For)]:
        read = set[str]()
        for node in loop.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in read:
                    if name not in names_in(value) and name in scene.flowing:
                        yield from _with_former(scene, name, value)
                case _:
                    pass
            read |= names_in(node.value if isinstance(node, ast.Assign) else node)


def _with_former(scene: Scene, name: str, value: ast.expr) -> Iterator[Edit]:
    here, shape = as_part(scene.draft, value, ADD), scene.shape(value)
    found = scene.arrays_at(value).items()
    arrays = [k for k, v in found if shape_of(v) == shape and k != name and not _is_mask(v)]
    factors = [f" * {form}" for a in [*arrays, *scene.numbers] for form in (a, f"(1 - {a})")]
    masks = [k for k, v in found if _is_mask(v) and spreads(shape_of(v), shape)]
    factors += [f" * {form}" for a in masks for form in (f"~{a}", a)]
    yield scene.put(value, f"{here} + {name}", "overwritten", _FORMER)
    for factor in factors:
        yield scene.put(value, f"{here} + {name}{factor}", "missing_term", _FORMER)


def _is_mask(value: object) -> bool:
    held = plain(value)
    return held is not None and held.dtype.kind == "b"


def counted(scene: Scene) -> Iterator[Edit]:
    """A factor that counts the turns of a loop, in what each of them adds: `s = s + c[k] * p` to
    `s = s + k * c[k] * p`, from the derivative of a power."""
    for node in scene.draft.statements:
        counters = [n for n in _counters_around(scene, node) if n in scene.counters]
        if not counters or not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        for term in terms_of(node.value):
            if isinstance(term, ast.Name) or not scene.is_array(term):
                continue  # What has been added up so far, or nothing that an edit could be of.
            here = as_part(scene.draft, term, MUL)
            for k in counters:
                for text, more in ((k, 0.0), (f"({k} + 1)", 0.1)):
                    yield scene.put(term, f"{text} * {here}", "factor", _COUNTED + more)


def _counters_around(scene: Scene, node: ast.AST) -> list[str]:
    """What counts the turns of the loops around a statement, the innermost one first."""
    loops = [n for n in loops_around(scene.draft.parents, node) if isinstance(n, ast.For)]
    return [n.id for loop in loops for n in ast.walk(loop.target) if _is_name(n)]


def hoisted(scene: Scene) -> Iterator[Edit]:
    """What a loop hands on from turn to turn, set before the loop and not anew in every turn."""
    for loop in [n for n in scene.draft.nodes if isinstance(n, ast.For)]:
        inside = [n for s in [*loop.body, loop.target] for n in ast.walk(s) if _is_name(n)]
        count = Counter([n.id for n in inside if is_stored(n)])
        for node in loop.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    again = count[name] > 1 and not names_in(value) & set(count)
                case _:
                    continue
            if again and len(loop.body) > 1:
                start = scene.draft.span(loop)[0]
                kept = removed(scene.draft, node, "", 0.0)
                text, indent = scene.draft.src(node), " " * loop.col_offset
                before = scene.draft.body[start : kept.start]
                says = f"`{text}` comes before the loop"
                yield Edit(
                    start, kept.end, f"{text}\n{indent}{before}", "reset_misplaced", 1.2, says
                )


def summed(scene: Scene) -> Iterator[Edit]:
    """A value that is computed and never read, added to a gradient of its shape."""
    for node in scene.draft.statements:
        if not isinstance(node, ast.Assign):
            continue
        for target in [t for e in node.targets for t in elements(e)]:
            name = target.id if isinstance(target, ast.Name) else ""
            shape = shape_of(scene.watched.names.get(name))
            if name in scene.unread and shape:
                yield from _added_to(scene, node, name, shape)


def _added_to(scene: Scene, node: ast.stmt, name: str, shape: Shape) -> Iterator[Edit]:
    """`total += name` after the statement that computes it, and after others of this kind."""
    block = cast("list[ast.stmt]", getattr(scene.draft.parents[node], "body", [node]))
    after = [n for n in block if n.lineno > node.lineno and isinstance(n, ast.AugAssign)]
    end, indent = scene.draft.span([node, *after][-1])[1], " " * node.col_offset
    for total in sorted({n.id for r in scene.returned for n in ast.walk(r) if _is_name(n)}):
        held = scene.watched.names.get(total)
        if total != name and shape_of(held) == shape:
            says = f"`{name}` is added to `{total}`"
            code = "missing_term" if np.any(plain(held)) else "dropped"
            yield Edit(end, end, f"\n{indent}{total} += {name}", code, 0.9, says)


def _is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def collected(scene: Scene) -> Iterator[Edit]:
    """What is collected in a loop, from the other end: `dxs.append(d)` to `dxs.insert(0, d)`."""
    for node in scene.expressions:
        match node:
            case ast.Call(func=ast.Attribute(value=held, attr="append"), args=[value]):
                text = f"insert(0, {scene.draft.src(value)})"
            case ast.Call(
                func=ast.Attribute(value=held, attr="insert"), args=[ast.Constant(value=0), value]
            ):
                text = f"append({scene.draft.src(value)})"
            case _:
                continue
        if scene.watched.turns[scene.draft.index[node]] > 1:
            yield scene.put(node, f"{scene.draft.src(held)}.{text}", "wrong_value", 1.3)
