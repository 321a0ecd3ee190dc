"""One number where another belongs: other indices, other sizes, other settings."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import names_in
from chainrule.verify.repair.watch import is_count, shape_of


def other_index(scene: Scene) -> Iterator[Edit]:
    """Another whole number in an index or in the bounds of a slice."""
    inside = {
        e
        for n in scene.draft.nodes
        if isinstance(n, ast.Subscript)
        for e in ast.walk(n.slice)
        if isinstance(e, ast.expr)
    }
    names = [k for k, v in scene.watched.names.items() if is_count(v)]
    for node in [n for n in scene.expressions if n in inside]:
        if not is_count(scene.value(node)):
            continue
        here = scene.draft.src(node)
        for name in names:
            if name != here:
                yield scene.put(node, name, "wrong_value", 1.5)
        if isinstance(node, ast.Constant):
            near = [f"{i} {sign} 1" for i in scene.counters for sign in "-+"]
            yield from [scene.put(node, text, "wrong_value", 1.4) for text in near]
        else:
            for text in (f"{here} + 1", f"{here} - 1"):
                yield scene.put(node, text, "wrong_value", 1.5)


def other_number(scene: Scene) -> Iterator[Edit]:
    """Another number that the same object holds, or another local one: `self.kh` to `self.kw`,
    `kernel` to `stride`."""
    for node in scene.expressions:
        if scene.shape(node) != ():
            continue
        match node:
            case ast.Attribute(value=inner, attr=here):
                held = getattr(scene.value(inner), "__dict__", {})
                owner = f"{scene.draft.src(inner)}."
            case ast.Name(id=here):
                held, owner = scene.watched.names, ""
            case _:
                continue
        whole = is_count(scene.value(node))
        for name, value in held.items():
            is_other = name != here and shape_of(value) == () and is_count(value) == whole
            if is_other and not isinstance(value, bool) and name not in scene.flowing:
                unlike = 0.1 * (name[:1] != here[:1])
                yield scene.put(node, owner + name, "wrong_value", 1.2 + unlike)


def of_another_owner(scene: Scene) -> Iterator[Edit]:
    """The same attribute of another object: `Layer.slope` to `ctx.slope`, which may be another one
    for each call."""
    owners = {k: getattr(v, "__dict__", {}) for k, v in scene.watched.names.items()}
    for node in scene.expressions:
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if (
                scene.shape(node) is not None
            ):
                pass
            case _:
                continue
        for name in [k for k, held in owners.items() if k != owner and attr in held]:
            if owners[name][attr] is not scene.value(node):
                yield scene.put(node, f"{name}.{attr}", "wrong_value", 0.9)


def exchanged_numbers(scene: Scene) -> Iterator[Edit]:
    """Two numbers that are handed to a call, each in the place of the other: `pad(x, left, right)`
    to `pad(x, right, left)`."""
    for call in [n for n in scene.expressions if isinstance(n, ast.Call)]:
        numbers = [a for a in call.args if isinstance(a, ast.Name) and is_count(scene.value(a))]
        for a, b in itertools.combinations(numbers, 2):
            one, other = scene.draft.src(a), scene.draft.src(b)
            if one != other:
                (start, middle), (again, end) = scene.draft.span(a), scene.draft.span(b)
                text = other + scene.draft.body[middle:again] + one
                says = f"`{one}` and `{other}` change places"
                yield Edit(start, end, text, "wrong_value", 1.3, says)


def other_flag(scene: Scene) -> Iterator[Edit]:
    """Another local name that says yes or no: `if need_x` to `if need_b`."""
    flags = [k for k, v in scene.watched.names.items() if isinstance(v, bool)]
    for node in [n for n in scene.expressions if isinstance(n, ast.Name) and n.id in flags]:
        for name in flags:
            if name != node.id:
                yield scene.put(node, name, "wrong_value", 0.9)


def guarded_index(scene: Scene) -> Iterator[Edit]:
    """The element before, or after, with what stands in for it at the end of a loop: `hs[t]` to
    `(hs[t - 1] if t > 0 else h0)`."""
    for node in scene.expressions:
        match node:
            case ast.Subscript(value=ast.Name(id=array), slice=ast.Name(id=i)):
                shape = scene.shape(node)
            case _:
                continue
        if not shape or not _is_loop_counter(scene, i):
            continue
        for name, value in scene.arrays_at(node).items():
            if name.isidentifier() and shape_of(value) == shape:
                for near, inside in ((f"{i} - 1", f"{i} > 0"), (f"{i} + 1", _more(array, i))):
                    text = f"{array}[{near}] if {inside} else {name}"
                    yield scene.put(node, text, "wrong_value", 1.6)


def _more(array: str, i: str) -> str:
    return f"{i} + 1 < len({array})"


def _is_loop_counter(scene: Scene, name: str) -> bool:
    """Whether a name counts the turns of a loop."""
    loops = [n for n in scene.draft.nodes if isinstance(n, ast.For)]
    return is_count(scene.watched.names.get(name)) and any(
        name in names_in(n.target) for n in loops
    )
