"""Expressions that the code has no trace of, put together anew; for an input that gets None or
zeros as well.

What is missing is known as an array. So expressions over the named arrays (`pool.py`) are looked
for that have this value, up to a constant. Nothing is run for it. A new gradient is put where those
of other inputs are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.budget import EXPRESSIONS
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, MUL, as_operand, operand
from chainrule.verify.repair.code.syntax import is_sum
from chainrule.verify.repair.rule_costs import MADE, READ
from chainrule.verify.repair.target import Expected
from chainrule.verify.repair.values.derivative_terms import derived_terms
from chainrule.verify.repair.values.expression_pool import Term, named_arrays, pool, sums_to
from chainrule.verify.repair.values.lab import Lab, Values
from chainrule.verify.repair.values.loop_values import LoopValues
from chainrule.verify.repair.values.numbers import Scalar, coefficient, scalars
from chainrule.verify.repair.values.response import Response
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import LOOSE


def new_gradients(lab: Lab) -> Iterator[Edit]:
    """Edits that give an expression to an input that gets None or zeros."""
    there = lab.at_other_sizes
    scene, numbers = lab.scene, scalars(lab.scene, None if there is None else there.scene)
    if not scene.returned:
        return
    for i in lab.wrong:
        expected, got = lab.target.expected[i], lab.x_bars[i]
        if got is None or not np.any(got):
            for term, weight in _equal(lab, expected):
                for text, cost in texts_of(term, (weight,), numbers):
                    yield from _instead_of_nothing(scene, text, cost)
                    yield from _by_name(lab, i, text, cost)


def _equal(lab: Lab, expected: Expected) -> list[tuple[Term, float]]:
    """Expressions that are a gradient, up to a weight: a named array or its sums, or else more."""
    scene, wanted = lab.scene, expected.values / _unit(lab)
    node, shape = scene.returned[-1], expected.shape
    atoms = [Term(k, v, 0.0) for k, v in named_arrays(scene, node).items()]
    plain_ones = [t for a in atoms for t in sums_to(scene, a, shape)]
    found = list(fitting(plain_ones, expected.directions, wanted))
    terms = [] if found else pool(scene, named_arrays(scene, node), shape)
    return found or list(fitting(terms, expected.directions, wanted))


def _unit(lab: Lab) -> float:
    """What the code's gradients are multiplied by: the cotangent of a loss that it is not given."""
    given = lab.problem.subject.takes_cotangent or not np.all(lab.target.gs[0])
    return 1.0 if given else float(lab.target.gs[0].reshape(-1)[0])


def _instead_of_nothing(scene: Scene, text: str, cost: float) -> Iterator[Edit]:
    for node in scene.returned:
        value = plain(scene.value(node))
        none = isinstance(node, ast.Constant) and node.value is None
        if none or (value is not None and not np.any(value)):
            made = MADE * isinstance(node, ast.Subscript | ast.Attribute)
            yield scene.put(_before_conversion(node), text, "dropped", 1.2 + made + cost)
    if isinstance(scene.draft.parents[scene.returned[-1]], ast.Tuple):
        end = scene.draft.span(scene.returned[-1])[1]
        yield Edit(end, end, f", {text}", "dropped", 1.4 + cost, f"`{text}` is returned, too")


def _before_conversion(node: ast.expr) -> ast.expr:
    """What is returned as a tensor, or an array, of another kind: `d` of `cr.tensor(d)`."""
    match node:
        case ast.Call(func=ast.Attribute(), args=[ast.Name() as inner], keywords=[]):
            return inner
        case _:
            return node


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
    """One more assignment to a place that is called like those of the other inputs,"""
    for node, target, key in _stores(scene):
        how = "=" if isinstance(node, ast.Assign) else "+="
        for new in _likewise(scene, names, name, target, key):
            meant = READ * (new in scene.draft.body)
            yield _line_after(scene, node, new, f"{new} {how} {text}", 1.3 + cost - meant)


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


def replacements(
    lab: Lab, response: Response, beside: LoopValues, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Edits that put another expression where a node stands, or add one to it."""
    scene, node = lab.scene, response.node
    turn = 0 if len(response.values) == 1 else -1 if response.needed is None else response.needed[0]
    if turn < 0:
        return
    value = response.values[turn]
    terms = pool(scene, beside.arrays[turn], value.shape)
    terms = [*terms, *derived_terms(scene, node, response.visits[turn], beside.arrays[turn])]
    nothing, held = not np.any(response.flat), summands_around(scene, node)
    for columns, residual in _systems(lab, response):
        here = value.reshape(-1) if columns is None else columns @ value.reshape(-1)
        for term, weight in fitting(terms, columns, residual + here):
            for text, cost in texts_of(term, (weight,), numbers):
                code, base = ("dropped", 1.2) if nothing else (term.code, 1.7)
                yield scene.put(node, text, code, base + cost)
        if nothing:
            continue
        others = [t for t in terms if not is_there(t.value, held)]
        for term, weight in fitting(others, columns, residual):
            (both,) = lab.weights(node, [term.text], [weight])
            for text, cost in coefficient(term.text, both, numbers):
                whole = f"{as_operand(scene.draft, node, ADD)} {text}"
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
    good = (rests <= LOOSE * np.linalg.norm(wanted)) & (weights != 0)
    for k in sorted(np.flatnonzero(good), key=lambda k: terms[k].cost)[:EXPRESSIONS]:
        yield terms[k], float(weights[k])


def texts_of(term: Term, weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """A multiple of a term, as it stands alone."""
    for text, cost in coefficient(term.text, weight, numbers):
        yield (text[2:] if text[0] == "+" else f"-{operand(text[2:], MUL)}"), term.cost + cost


def summands_around(scene: Scene, node: ast.expr) -> list[Array]:
    """The values of all terms of the sum that a node is part of, flat; its own if it is in none."""
    whole = node
    while is_sum(parent := scene.draft.parents[whole]) and isinstance(parent, ast.expr):
        whole = parent
    held = [plain(scene.value(e)) for e in terms_of(whole)]
    return [v.reshape(-1) for v in held if v is not None and np.any(v)]


def is_there(value: Array, held: list[Array]) -> bool:
    """Whether a value is a multiple of one that is added up already."""
    flat = value.reshape(-1)
    return any(_is_multiple(flat, v) for v in held)


def terms_of(node: ast.expr) -> list[ast.expr]:
    """What a sum adds up or takes off; of anything else, itself."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return [*terms_of(left), *terms_of(right)]
        case _:
            return [node]


def _is_multiple(a: Array, b: Array) -> bool:
    if a.shape != b.shape or a.size < 2:
        return False
    rest = a - (np.vdot(b, a) / np.vdot(b, b)) * b
    return bool(np.linalg.norm(rest) <= LOOSE * np.linalg.norm(a))
