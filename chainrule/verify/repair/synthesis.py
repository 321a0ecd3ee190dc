"""Gradients, and last terms of gradients, that the code has no trace of: put together anew.

What is missing from a returned gradient is known as an array. So expressions over the named arrays
are looked for that have this value, up to a constant: products of two or three of them, matrix
products, and sums of those along the axes that are too many. Nothing is run for it.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.fit import ADD, ATOM, MUL, as_part, part
from chainrule.verify.repair.lab import CLOSE, Lab, Response, Values
from chainrule.verify.repair.numbers import Scalar, coefficient, scalars
from chainrule.verify.repair.scene import Scene, Shape
from chainrule.verify.repair.target import Expected
from chainrule.verify.repair.watch import plain
from chainrule.verify.subject import Array

_BEST = 8
"""Expressions that are tried, of those that fit."""
_LARGEST = 200_000
"""Elements of a product that is still formed."""


@dataclass(frozen=True, eq=False)
class Term:
    """An expression and its value."""

    text: str
    value: Array
    cost: float
    code: str = "wrong_value"
    """The mistake of having anything else in its place."""


def named(scene: Scene, node: ast.expr) -> dict[str, Array]:
    """Named arrays within reach of a node as NumPy arrays, bools as numbers."""
    found = {k: plain(v) for k, v in scene.arrays_at(node).items()}
    kept = {k: v for k, v in found.items() if v is not None and v.dtype.kind in "fiub"}
    return {k: v if v.dtype.kind == "f" else v.astype(np.float64) for k, v in kept.items()}


def new_gradients(lab: Lab) -> Iterator[Edit]:
    """Edits that give an expression to an input that gets None or zeros."""
    there = lab.elsewhere
    scene, numbers = lab.scene, scalars(lab.scene, None if there is None else there.scene)
    if not scene.returned:
        return
    for i in lab.wrong:
        expected, got = lab.target.expected[i], lab.x_bars[i]
        if got is None or not np.any(got):
            for term, weight in _equal(scene, expected):
                for text, cost in _alone(term, (weight,), numbers):
                    yield from _instead_of_nothing(scene, text, cost)
                    yield from _by_name(lab, i, text, cost)


def _equal(scene: Scene, expected: Expected) -> list[tuple[Term, float]]:
    """Expressions that are a gradient, up to a weight: a named array or its sums, or else more."""
    node, shape = scene.returned[-1], expected.shape
    atoms = [Term(k, v, 0.0) for k, v in named(scene, node).items()]
    plain_ones = [t for a in atoms for t in _summed(scene, a, shape)]
    found = list(_fitting(plain_ones, expected.directions, expected.values))
    return found or list(_fitting(_pool(scene, node, shape), expected.directions, expected.values))


def instead(lab: Lab, response: Response, numbers: list[Scalar]) -> Iterator[Edit]:
    """Edits that put another expression where a node stands, or add one to it."""
    scene, node, value = lab.scene, response.node, response.value
    terms = _pool(scene, node, value.shape)
    nothing = not np.any(value)
    for columns, residual in _systems(lab, response):
        for term, weight in _fitting(terms, columns, residual + columns @ value.reshape(-1)):
            for text, cost in _alone(term, (weight,), numbers):
                code, base = ("dropped", 1.2) if nothing else (term.code, 1.7)
                yield scene.put(node, text, code, base + cost)
        if nothing:
            continue
        for term, weight in _fitting(terms, columns, residual):
            (both,) = lab.weights(node, [term.text], [weight])
            for text, cost in coefficient(term.text, both, numbers):
                whole = f"{as_part(scene.draft, node, ADD)} {text}"
                yield scene.put(node, whole, "missing_term", 1.5 + term.cost + cost)


def _systems(lab: Lab, response: Response) -> Iterator[tuple[Array, Array]]:
    """What a change of a node must bring about: in all wrong gradients that depend on it, and in
    each by itself."""
    usable = {i: c for i, c in response.columns.items() if np.any(c)}
    if len(usable) > 1:
        residuals = [lab.residuals[i] for i in usable]
        yield np.concatenate(list(usable.values())), np.concatenate(residuals)
    for i, columns in usable.items():
        yield columns, lab.residuals[i]


def _pool(scene: Scene, node: ast.expr, shape: Shape) -> list[Term]:
    """Expressions that could stand where a node stands."""
    arrays = named(scene, node)
    key = (shape, tuple([(k, v.tobytes()) for k, v in arrays.items()]))
    if key not in scene.pool:
        formed = [*_formed(scene, arrays, shape), *_projected(scene, arrays, shape)]
        formed += _reshaped(scene, arrays, shape)
        scene.pool[key] = [t for t in formed if np.all(np.isfinite(t.value)) and np.any(t.value)]
    return scene.pool[key]


def _fitting(
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


def _alone(term: Term, weight: Values, numbers: list[Scalar]) -> Iterator[tuple[str, float]]:
    """A multiple of a term, as it stands alone."""
    for text, cost in coefficient(term.text, weight, numbers):
        yield (text[2:] if text[0] == "+" else f"-{part(text[2:], MUL)}"), term.cost + cost


def _instead_of_nothing(scene: Scene, text: str, cost: float) -> Iterator[Edit]:
    for node in scene.returned:
        value = plain(scene.value(node))
        none = isinstance(node, ast.Constant) and node.value is None
        if none or (value is not None and not np.any(value)):
            yield scene.put(node, text, "dropped", 1.2 + cost)
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
    for node in scene.draft.nodes:
        match node:
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target]):
                place = scene.draft.src(target)
            case _:
                continue
        start, end = scene.draft.span(node)
        indent = " " * node.col_offset
        for other in [n for n in names if n != name and n.split(".")[-1] in place]:
            new = place.replace(other.split(".")[-1], name.split(".")[-1])
            if new not in scene.draft.body and start < end:
                says = f"`{new}` is assigned, too"
                yield Edit(end, end, f"\n{indent}{new} = {text}", "dropped", 1.3 + cost, says)


def _projected(scene: Scene, arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    """Products less their projections, as in the gradients of a softmax and of norms."""
    same = {k: v for k, v in arrays.items() if v.shape == shape}
    for a, b in itertools.permutations(same, 2):
        x, y = same[a], same[b]
        for axis in range(-1, len(shape) - 1):
            along = scene.along(axis, True)
            total = (x * y).sum(axis=axis, keepdims=True)
            mean = total / shape[axis]
            inside = f"{b} * ({a} - ({a} * {b}).sum({along}))"
            yield Term(inside, y * (x - total), 0.5, "missing_term")
            text = f"{a} - {b} * ({a} * {b}).mean({along})"
            yield Term(text, x - y * mean, 0.5, "missing_term")


def _formed(scene: Scene, arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    atoms = [Term(k, v, 0.0) for k, v in arrays.items()]
    for term in _combined(scene, atoms):
        yield from _summed(scene, term, shape)
    atoms = atoms[:8]
    atoms += [Term(f"(1 - {a.text})", 1 - a.value, 0.1) for a in atoms]
    atoms += [Term(f"(1 + {a.text})", 1 + a.value, 0.2) for a in atoms[:8]]
    atoms += [Term(f"{a.text} ** 2", a.value**2, 0.1) for a in atoms[:8]]
    atoms += _differences(atoms[:8])
    yield from [t for a in atoms[8:] for t in _summed(scene, a, shape)]
    for a, b in itertools.combinations(atoms, 2):
        if (two := _times(a, b)) is not None:
            yield from _summed(scene, two, shape)
    atoms = [a for a in atoms if a.value.shape == shape][:14]
    for a, b, c in itertools.combinations(atoms, 3):
        if (two := _times(a, b)) is not None and (three := _times(two, c)) is not None:
            yield from _summed(scene, three, shape)


def _reshaped(scene: Scene, arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    """What has the right number of elements, in the right shape."""
    sizes = [k for k, v in scene.watched.names.items() if _is_size(v, shape)]
    sizes += [f"{k}.shape" for k, v in arrays.items() if v.shape == shape]
    sizes += [scene.draft.src(n) for n in scene.expressions if _is_size(scene.value(n), shape)]
    for name, value in arrays.items():
        if value.shape != shape and value.size == np.prod(shape) and sizes:
            text = f"{part(name, ATOM)}.reshape({sizes[0]})"
            yield Term(text, value.reshape(shape), 0.1)


def _is_size(value: object, shape: Shape) -> bool:
    return (
        isinstance(value, tuple)
        and all(isinstance(n, int) for n in cast("tuple[object, ...]", value))
        and value == shape
    )


def _differences(atoms: list[Term]) -> list[Term]:
    """Differences of arrays of which one fills the other."""
    found = list[Term]()
    for a, b in itertools.permutations(atoms, 2):
        same = a.value.shape == b.value.shape
        first = same and a.text < b.text
        if a.value.ndim and b.value.ndim and (first or (not same and _broadcasts(b, a))):
            found.append(Term(f"({a.text} - {b.text})", a.value - b.value, 0.2))
    return found[:16]


def _broadcasts(small: Term, large: Term) -> bool:
    """Whether one array fills the other without making it larger."""
    try:
        return np.broadcast_shapes(small.value.shape, large.value.shape) == large.value.shape
    except ValueError:
        return False


def _combined(scene: Scene, atoms: list[Term]) -> Iterator[Term]:
    yield from atoms
    for a, b in itertools.combinations_with_replacement(atoms, 2):
        if (product := _times(a, b)) is not None:
            yield product
    for a, b in itertools.product(atoms, atoms):
        yield from _matrix_products(scene, a, b)


def _times(a: Term, b: Term) -> Term | None:
    try:
        shape = np.broadcast_shapes(a.value.shape, b.value.shape)
    except ValueError:
        return None
    if np.prod(shape) > _LARGEST:
        return None
    text = f"{part(a.text, MUL)} * {part(b.text, MUL + 1)}"
    return Term(text, a.value * b.value, a.cost + b.cost + 0.1)


def _matrix_products(scene: Scene, a: Term, b: Term) -> Iterator[Term]:
    if min(a.value.ndim, b.value.ndim) < 2 or a.value.size * b.value.size > _LARGEST**2:
        return
    for left, right in itertools.product(_forms(scene, a), _forms(scene, b)):
        if left.value.shape[-1] == right.value.shape[-2]:
            try:
                value = left.value @ right.value
            except ValueError:
                continue
            cost = left.cost + right.cost + 0.1
            yield Term(f"{part(left.text, MUL)} @ {part(right.text, MUL + 1)}", value, cost)


def _forms(scene: Scene, a: Term) -> list[Term]:
    text = scene.transposed(a.text, a.value.ndim)
    return [a, Term(text, np.swapaxes(a.value, -1, -2), a.cost + 0.05)]


def _summed(scene: Scene, term: Term, shape: Shape) -> Iterator[Term]:
    """The term itself, or its sums over axes, where that has the right shape."""
    here = term.value.shape
    if here == shape:
        yield term
        return
    for n in range(1, len(here) + 1):
        for axes in itertools.combinations(range(len(here)), n):
            left = tuple([s for i, s in enumerate(here) if i not in axes])
            kept = tuple([1 if i in axes else s for i, s in enumerate(here)])
            for keep in (False, True):
                if (kept if keep else left) == shape:
                    axis = axes[0] if len(axes) == 1 else axes
                    text = f"{part(term.text, ATOM)}.sum({scene.along(axis, keep)})"
                    value = term.value.sum(axis=axes, keepdims=keep)
                    yield Term(text, value, term.cost + 0.05)
