"""Gradients, and last terms of gradients, that the code has no trace of: put together anew.

What is missing from a returned gradient is known as an array. So expressions over the named arrays
(`pool.py`) are looked for that have this value, up to a constant. Nothing is run for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from chainrule.verify.repair.addends import added_up, is_there
from chainrule.verify.repair.beside import Beside
from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, MUL, as_part, part
from chainrule.verify.repair.lab import Lab, Values
from chainrule.verify.repair.numbers import Scalar, coefficient, scalars
from chainrule.verify.repair.pool import Term, named, pool, summed
from chainrule.verify.repair.response import CLOSE, Response
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.target import Expected
from chainrule.verify.repair.watch import plain
from chainrule.verify.subject import Array

_BEST = 8
"""Expressions that are tried, of those that fit."""
_MADE = 0.5
"""How much less likely it is that a gradient was to be written where a place is returned."""
_FAR = 0.02
"""How much less likely an entry was to be filled beside another, for each one between them."""
_READ = 0.4
"""How much likelier it is that a place was to be filled which is read."""


def new_gradients(lab: Lab) -> Iterator[Edit]:
    """Edits that give an expression to an input that gets None or zeros."""
    there = lab.elsewhere
    scene, numbers = lab.scene, scalars(lab.scene, None if there is None else there.scene)
    if not scene.returned:
        return
    for i in lab.wrong:
        expected, got = lab.target.expected[i], lab.x_bars[i]
        if got is None or not np.any(got):
            for term, weight in _equal(lab, expected):
                for text, cost in alone(term, (weight,), numbers):
                    yield from _instead_of_nothing(scene, text, cost)
                    yield from _by_name(lab, i, text, cost)
                    yield from _by_zeros(scene, expected.shape, text, cost)
            yield from _by_index(lab, i, numbers)


def _equal(lab: Lab, expected: Expected) -> list[tuple[Term, float]]:
    """Expressions that are a gradient, up to a weight: a named array or its sums, or else more."""
    scene, wanted = lab.scene, expected.values / _unit(lab)
    node, shape = scene.returned[-1], expected.shape
    atoms = [Term(k, v, 0.0) for k, v in named(scene, node).items()]
    plain_ones = [t for a in atoms for t in summed(scene, a, shape)]
    found = list(fitting(plain_ones, expected.directions, wanted))
    terms = pool(scene, named(scene, node), shape)
    return found or list(fitting(terms, expected.directions, wanted))


def _unit(lab: Lab) -> float:
    """What the code's gradients are multiplied by: the cotangent of a loss that it is not given."""
    gs = lab.target.gs
    if len(gs) != 1 or gs[0].size != 1 or not np.all(gs[0]):
        return 1.0
    g = gs[0].reshape(-1)[0]
    names: list[Any] = list(lab.scene.watched.names.values())
    held = [plain(x) for x in names]
    given = any(x is not None and x.size == 1 and x.reshape(-1)[0] == g for x in held)
    return 1.0 if given else float(g)


def instead(lab: Lab, response: Response, beside: Beside, numbers: list[Scalar]) -> Iterator[Edit]:
    """Edits that put another expression where a node stands, or add one to it."""
    scene, node = lab.scene, response.node
    turn = 0 if len(response.values) == 1 else -1 if response.needed is None else response.needed[0]
    if turn < 0:
        return
    value = response.values[turn]
    terms = pool(scene, beside.arrays[turn], value.shape)
    nothing, held = not np.any(response.flat), added_up(scene, node)
    for columns, residual in _systems(lab, response):
        here = value.reshape(-1) if columns is None else columns @ value.reshape(-1)
        for term, weight in fitting(terms, columns, residual + here):
            for text, cost in alone(term, (weight,), numbers):
                code, base = ("dropped", 1.2) if nothing else (term.code, 1.7)
                yield scene.put(node, text, code, base + cost)
        if nothing:
            continue
        others = [t for t in terms if not is_there(t.value, held)]
        for term, weight in fitting(others, columns, residual):
            (both,) = lab.weights(node, [term.text], [weight])
            for text, cost in coefficient(term.text, both, numbers):
                whole = f"{as_part(scene.draft, node, ADD)} {text}"
                yield scene.put(node, whole, "missing_term", 1.5 + term.cost + cost)


def _systems(lab: Lab, response: Response) -> Iterator[tuple[Array | None, Array]]:
    """What a change of a node must bring about: in all wrong gradients that depend on it, and in
    each by itself; in a loop, in the node itself, in one of its turns."""
    if response.needed is not None:
        yield None, response.needed[1].reshape(-1)
        return
    usable = {i: c for i, c in response.columns.items() if np.any(c)}
    if len(usable) > 1:
        residuals = [lab.residuals[i] for i in usable]
        yield np.concatenate(list(usable.values())), np.concatenate(residuals)
    for i, columns in usable.items():
        yield columns, lab.residuals[i]


def fitting(
    terms: list[Term], columns: Array | None, wanted: Array
) -> Iterator[tuple[Term, float]]:
    """Terms of which a multiple has a wanted effect, the simplest first, and the weights."""
    if not terms:
        return
    effects = np.stack([t.value.reshape(-1) for t in terms])
    effects = effects if columns is None else effects @ columns.T
    sizes = np.einsum("km,km->k", effects, effects)
    weights = effects @ wanted / np.where(sizes > 0, sizes, 1.0)
    rests = np.linalg.norm(wanted - weights[:, None] * effects, axis=1)
    good = (rests <= CLOSE * np.linalg.norm(wanted)) & (weights != 0)
    for k in sorted(np.flatnonzero(good), key=lambda k: terms[k].cost)[:_BEST]:
        yield terms[k], float(weights[k])


def alone(term: Term, weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """A multiple of a term, as it stands alone."""
    for text, cost in coefficient(term.text, weight, numbers):
        yield (text[2:] if text[0] == "+" else f"-{part(text[2:], MUL)}"), term.cost + cost


def _instead_of_nothing(scene: Scene, text: str, cost: float) -> Iterator[Edit]:
    for node in scene.returned:
        value = plain(scene.value(node))
        none = isinstance(node, ast.Constant) and node.value is None
        if none or (value is not None and not np.any(value)):
            made = _MADE * isinstance(node, ast.Subscript | ast.Attribute)
            yield scene.put(node, text, "dropped", 1.2 + made + cost)
    if isinstance(scene.draft.parents[scene.returned[-1]], ast.Tuple):
        end = scene.draft.span(scene.returned[-1])[1]
        yield Edit(end, end, f", {text}", "dropped", 1.4 + cost, f"`{text}` is returned, too")


def _by_name(lab: Lab, i: int, text: str, cost: float) -> Iterator[Edit]:
    """One more entry of a dict of gradients, its key made like the others."""
    names = [x.name for x in lab.problem.subject.inputs]
    yield from _by_attribute(lab.scene, names, names[i], text, cost)
    for node in lab.scene.draft.nodes:
        if not isinstance(node, ast.Dict) or not node.values:
            continue
        keys = [k.value for k in node.keys if isinstance(k, ast.Constant)]
        texts = [k for k in keys if isinstance(k, str)]
        made = {k.replace(n, names[i]) for k in texts for n in names if k.endswith(n)}
        end = lab.scene.draft.span(node.values[-1])[1]
        for key in sorted(made - set(texts)):
            says = f"`{text}` is returned as `{key}`"
            yield Edit(end, end, f', "{key}": {text}', "dropped", 1.3 + cost, says)


def _by_attribute(
    scene: Scene, names: list[str], name: str, text: str, cost: float
) -> Iterator[Edit]:
    """One more assignment to a place that is called like those of the other inputs."""
    for node, target, key in _stores(scene):
        how = "=" if isinstance(node, ast.Assign) else "+="
        for new in _likewise(scene, names, name, target, key):
            meant = _READ * (new in scene.draft.body)
            yield _line_after(scene, node, new, f"{new} {how} {text}", 1.3 + cost - meant)


def _by_zeros(scene: Scene, shape: tuple[int, ...], text: str, cost: float) -> Iterator[Edit]:
    """One more entry filled of a dict that holds zeros there and has other entries filled, whatever
    its inputs are called elsewhere: `grads["skip"] += x.T @ g` for the array `self.bypass`."""
    stores = [(n, t, k) for n, t, k in _stores(scene) if isinstance(t, ast.Subscript)]
    given = {scene.draft.src(t) for _, t, _ in stores}
    for node, target, beside in stores:
        held = scene.watched.names.get(scene.draft.src(target.value))
        entries = cast("dict[Any, Any]", held) if isinstance(held, dict) else {}
        quote = scene.draft.src(target.slice)[0]
        order = list(entries)
        for key, entry in entries.items():
            value, new = plain(entry), f"{scene.draft.src(target.value)}[{quote}{key}{quote}]"
            fits = value is not None and value.shape == shape and not np.any(value)
            if fits and new not in given:
                how = "=" if isinstance(node, ast.Assign) else "+="
                behind = order.index(key) - order.index(beside) if beside in entries else len(order)
                far = _FAR * (behind if behind > 0 else len(order))
                yield _line_after(scene, node, new, f"{new} {how} {text}", 1.3 + far + cost)


def _likewise(
    scene: Scene, names: list[str], name: str, target: ast.expr, key: str
) -> Iterator[str]:
    """Places for the gradient of an input that are called like that of another one."""
    place = scene.draft.src(target)
    given = {scene.draft.src(t) for _, t, _ in _stores(scene)}
    for other in dict.fromkeys([n.split(".")[-1] for n in names if n != name]):
        mine = key.replace(other, name.split(".")[-1])
        new = mine.join(place.rsplit(key, 1))
        if other in key and new not in given:
            yield new


def _line_after(scene: Scene, node: ast.stmt, new: str, text: str, cost: float) -> Edit:
    end, indent = scene.draft.span(node)[1], " " * node.col_offset
    return Edit(end, end, f"\n{indent}{text}", "dropped", cost, f"`{new}` is assigned, too")


def _by_index(lab: Lab, i: int, numbers: list[Scalar]) -> Iterator[Edit]:
    """One more place that is filled by index, with an array that has a value for each of them:
    `np.add.at(grads["b"], y, d)` beside `np.add.at(grads["w"], y, d[:, None] * x)`."""
    scene, expected = lab.scene, lab.target.expected[i]
    names = [x.name for x in lab.problem.subject.inputs]
    for node, target, key in _stores(scene):
        match node:
            case ast.Expr(value=ast.Call(func=f, args=[_, rows, value])):
                pass
            case _:
                continue
        at = plain(scene.value(rows))
        terms = [] if at is None else _put_at(scene.arrays_at(value), at, expected.shape)
        wanted = expected.values / _unit(lab)
        for term, weight in fitting(terms, expected.directions, wanted):
            for text, cost in alone(term, (weight,), numbers):
                for new in _likewise(scene, names, names[i], target, key):
                    line = f"{scene.draft.src(f)}({new}, {scene.draft.src(rows)}, {text})"
                    yield _line_after(scene, node, new, line, 1.1 + cost)


def _put_at(arrays: dict[str, object], rows: Array, shape: tuple[int, ...]) -> list[Term]:
    """What becomes of zeros by adding each array, by its name, to the rows of such numbers."""
    found = list[Term]()
    if rows.dtype.kind not in "iu" or not rows.size or not shape:
        return found
    for name, held in arrays.items():
        value = plain(held)
        if value is not None and value.shape == (*rows.shape, *shape[1:]) and _within(rows, shape):
            whole = np.zeros(shape, np.result_type(value, np.float64))
            np.add.at(whole, rows, value)
            found.append(Term(name, whole, 0.0))
    return found


def _within(rows: Array, shape: tuple[int, ...]) -> bool:
    return bool(rows.max() < shape[0] and rows.min() >= -shape[0])


def _stores(scene: Scene) -> Iterator[tuple[ast.stmt, ast.expr, str]]:
    """Statements that fill attributes or entries with a key: each, what it fills, the name."""
    for node in scene.draft.statements:
        match node:
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="at"), args=[target, *_])):
                pass
            case _:
                continue
        match target:
            case ast.Attribute(attr=key) | ast.Subscript(slice=ast.Constant(value=str(key))):
                yield node, target, key
            case _:
                continue
