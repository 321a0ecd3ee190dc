"""One value where another belongs: other names, other orders."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import called
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.syntax import is_simple, names_in
from chainrule.verify.repair.watch import plain, shape_of
from chainrule.verify.repair.wording import forward_texts
from chainrule.verify.trees import tree_of

_AS_KEPT = 0.4
"""How unlikely it is that names are exchanged which the forward keeps in the same order."""

_AS_ARGUMENTS = 0.6
"""How likely it is that gradients are asked for in the order of arguments that their names say."""

_MEANT = 0.35
"""How much unlikelier it is that a size was not to be taken: it is, to stay in range."""
_READ = (ast.Name, ast.Attribute, ast.Subscript)
"""What reads a value that is there."""


def other_name(scene: Scene) -> Iterator[Edit]:
    """Another named array of the same shape."""
    called = {n.func for n in scene.draft.nodes if isinstance(n, ast.Call)}
    for node in scene.expressions:
        here, shape = scene.draft.src(node), scene.shape(node)
        if node in called or not shape or isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare):
            continue
        for name, value in scene.arrays_at(node).items():
            if name != here and shape_of(value) == shape:
                code = _code(scene, node, name)
                meant = _MEANT * (code == "one_sided")
                yield scene.put(node, name, code, 1.3 + meant + 0.3 * (not name.isidentifier()))


def other_cotangent(scene: Scene) -> Iterator[Edit]:
    """The cotangent of another result, where both are numbers: `g_loss` to `g_penalty`."""
    names = [n for n in sorted(scene.cotangents) if shape_of(scene.watched.names.get(n)) == ()]
    for node in scene.expressions:
        if isinstance(node, ast.Name) and node.id in names:
            for name in names:
                if name != node.id:
                    yield scene.put(node, name, "wrong_value", 1.0)


def other_name_throughout(scene: Scene) -> Iterator[Edit]:
    """Another named array of the same shape wherever an expression reads one: `u * (1 - u)` to
    `s * (1 - s)`."""
    for root in scene.roots:
        read = [n for n in ast.walk(root) if isinstance(n, ast.expr) and is_simple(n)]
        texts = Counter([scene.draft.src(n) for n in read if scene.shape(n)])
        for here in [t for t, k in texts.items() if k > 1]:
            nodes = [n for n in read if scene.draft.src(n) == here]
            for name, value in scene.arrays_at(nodes[0]).items():
                if name != here and shape_of(value) == scene.shape(nodes[0]):
                    text = _with(scene, root, dict.fromkeys(nodes, name))
                    yield scene.put(root, text, "wrong_value", 1.35)


def _with(scene: Scene, root: ast.expr, names: dict[ast.expr, str]) -> str:
    """The text of an expression with other names in some places."""
    text, first = scene.draft.src(root), scene.draft.span(root)[0]
    for n in sorted(names, key=lambda n: -scene.draft.span(n)[0]):
        start, end = (i - first for i in scene.draft.span(n))
        text = text[:start] + names[n] + text[end:]
    return text


def _code(scene: Scene, node: ast.expr, name: str) -> str:
    held = plain(scene.value(node))
    if isinstance(node, ast.Call) and called(node) in ("abs", "fabs", "absolute"):
        return "one_sided" if name in names_in(node) else "wrong_value"
    once = scene.watched.turns[scene.draft.index[node]] == 1
    if once and held is not None and not np.any(held):
        return "dropped"
    inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    made = isinstance(node, ast.Call) and not inside & (set(scene.arrays) - scene.cotangents)
    if not made or name not in scene.cotangents:
        return "wrong_value"
    ones = isinstance(node, ast.Call) and called(node).endswith("_like")
    return "not_linear" if name in inside and not ones else "ignores_cotangent"


def exchanged(scene: Scene) -> Iterator[Edit]:
    """Two values of one expression, each in the place of the other: `wy * (1 - wx)` to
    `wx * (1 - wy)`, or two parts of an array."""
    for root in scene.roots:
        read = [n for n in ast.walk(root) if isinstance(n, _READ) and scene.shape(n)]
        places = dict[str, list[ast.expr]]()
        for n in read:
            places.setdefault(scene.draft.src(n), []).append(n)
        for a, b in itertools.combinations(sorted(places), 2):
            shapes = {scene.shape(n) for n in (*places[a], *places[b])}
            if len(shapes) == 1 and not _within_one(places[a], places[b]):
                new = {**dict.fromkeys(places[a], b), **dict.fromkeys(places[b], a)}
                yield scene.put(root, _with(scene, root, new), "wrong_value", 1.4)


def _within_one(some: list[ast.expr], others: list[ast.expr]) -> bool:
    """Whether one of these is a part of one of those, or the reverse."""
    pairs = [(a, b) for a in some for b in others]
    return any(b in ast.walk(a) or a in ast.walk(b) for a, b in pairs)


def other_order(scene: Scene) -> Iterator[Edit]:
    """Two of the returned gradients, or of the values unpacked, exchanged."""
    for node in scene.draft.nodes:
        match node:
            case ast.Return(value=ast.Tuple() | ast.List() as value):
                yield from _exchanged(scene, value, "wrong_input")
            case ast.Lambda(body=ast.Tuple() as value):
                yield from _exchanged(scene, value, "wrong_input")
            case ast.Assign(
                targets=[ast.Tuple() | ast.List() as value],
                value=ast.Attribute(attr="needs_input_grad"),
            ):
                told = _as_arguments(scene, [scene.draft.src(e) for e in value.elts])
                for e in _exchanged(scene, value, "wrong_value"):
                    better = _as_arguments(scene, e.text.split(", ")) - told
                    yield replace(e, cost=e.cost - _AS_ARGUMENTS * better)
            case ast.Assign(targets=[ast.Tuple() | ast.List() as value]):
                more = _AS_KEPT * _is_kept_so(scene, value)
                found = _exchanged(scene, value, "wrong_value")
                yield from [replace(e, cost=e.cost + more) for e in found]
            case ast.Call(args=[ast.Tuple() | ast.List() as value, *_]) if _arrays(scene, value):
                yield from _exchanged(scene, value, "wrong_value")
            case _:
                continue


def _as_arguments(scene: Scene, names: list[str]) -> bool:
    """Whether names are those of the forward's arguments in their order: `need_x, need_w`."""
    source = scene.draft.source
    own = source.computing or source.forward
    given = [] if own is None else [a.arg for a in _arguments(own.text)]
    given = given[source.computing is None :]
    pairs = list(zip(names, given, strict=False))
    return bool(pairs) and all(a == b or a.endswith(f"_{b}") or a == "_" for a, b in pairs)


def _arguments(text: str) -> list[ast.arg]:
    """Arguments of the function that a text defines."""
    found = [n for n in ast.walk(tree_of(text)) if isinstance(n, ast.FunctionDef)]
    return found[0].args.args if found else []


def _is_kept_so(scene: Scene, value: ast.Tuple | ast.List) -> bool:
    """Whether the forward puts the same names together, in this order."""
    names = ast.dump(_names_of(value.elts))
    return any(names in _tuples(text) for text in forward_texts(scene.draft.source))


@cache
def _tuples(text: str) -> set[str]:
    """What some code puts together, in a tuple or in a call."""
    tree = tree_of(text)
    found = [n.args for n in ast.walk(tree) if isinstance(n, ast.Call)]
    found += [n.elts for n in ast.walk(tree) if isinstance(n, ast.Tuple | ast.List)]
    return {ast.dump(_names_of(values)) for values in found}


def _names_of(values: list[ast.expr]) -> ast.Tuple:
    """Names put together, whether they are read or given, be it by what holds them: `x.shape` is
    unpacked as `shape`."""
    names = [getattr(n, "attr", getattr(n, "id", None)) for n in values]
    return ast.Tuple([n if k is None else ast.Name(k) for k, n in zip(names, values, strict=True)])


def _arrays(scene: Scene, value: ast.Tuple | ast.List) -> bool:
    """Whether a list is one of arrays: what is put together to one."""
    return all(scene.shape(e) for e in value.elts)


def _exchanged(scene: Scene, value: ast.Tuple | ast.List, code: str) -> Iterator[Edit]:
    texts = [scene.draft.src(e) for e in value.elts]
    if len(texts) < 2 or len(texts) > 8:
        return
    start, end = scene.draft.span(value.elts[0])[0], scene.draft.span(value.elts[-1])[1]
    between = scene.draft.body[start:end]
    if "(" in between and _crossing(between):
        return
    orders = list[list[str]]()
    for i, j in itertools.combinations(range(len(texts)), 2):
        order = list(texts)
        order[i], order[j] = order[j], order[i]
        orders.append(order)
    if len(texts) == 3:
        orders += [[texts[1], texts[2], texts[0]], [texts[2], texts[0], texts[1]]]
    for order in orders:
        yield Edit(start, end, ", ".join(order), code, 1.2, f"the order becomes {', '.join(order)}")


def _crossing(text: str) -> bool:
    """Whether parentheses in a stretch of text do not match: it begins or ends inside some."""
    depth = 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if depth < 0:
            return True
    return depth != 0
