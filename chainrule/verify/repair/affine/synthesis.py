"""Expressions that the code has no trace of, put together anew.

What is missing from a value is known as an array. So expressions over the named arrays (`pool.py`)
are looked for that have this value, up to a constant. Nothing is run for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import numpy as np

from chainrule.verify.repair.budget import EXPRESSIONS
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.fit import ADD, MUL, as_operand, operand
from chainrule.verify.repair.code.syntax import is_sum
from chainrule.verify.repair.values.lab import Lab, Values
from chainrule.verify.repair.values.loop_values import LoopValues
from chainrule.verify.repair.values.numbers import Scalar, coefficient
from chainrule.verify.repair.values.pool import Term, pool
from chainrule.verify.repair.values.response import Response
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import plain
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import LOOSE


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
