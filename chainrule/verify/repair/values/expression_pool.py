"""Expressions over the named arrays that have the shape of another: what could stand in its place.

Products of two or three of them, matrix products, what is left of one without its projection on
another, and sums of those along the axes that are too many. Nothing of the user's is run for it.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from chainrule.verify.repair.code.parentheses import ATOM, MUL, operand
from chainrule.verify.repair.code.syntax import reads
from chainrule.verify.repair.values.scene import Scene, Shape
from chainrule.verify.repair.values.watch import Visit, plain
from chainrule.verify.subject import Array

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


def named_arrays(scene: Scene, node: ast.expr, visit: Visit | None = None) -> dict[str, Array]:
    """Named arrays within reach of a node as NumPy arrays, bools as numbers; in a loop, also what
    belongs to its turn."""
    given = scene.arrays_at(node) if visit is None else scene.arrays_in(visit[1])
    if scene.watched.turns[scene.draft.index[node]] > 1:
        given = {**given, **scene.rows_at(node, visit)}
        given |= {} if scene.shape(node) else scene.numbers_at(node, visit)
    found = {k: plain(v) for k, v in given.items()}
    kept = {k: v for k, v in found.items() if v is not None and v.dtype.kind in "fiub"}
    kept |= dict(_spread(scene, kept))
    return {k: v if v.dtype.kind == "f" else v.astype(np.float64) for k, v in kept.items()}


def _spread(scene: Scene, arrays: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    """Cotangents that nothing reads with another axis: that of a sum's result, for its terms."""
    read = {n.id for n in reads(scene.draft)}
    for name in scene.cotangents & arrays.keys() - read:
        if (x := arrays[name]).ndim:
            axis = ".unsqueeze(-1)" if scene.dialect.torch else "[..., None]"
            yield name + axis, x[..., None]


def pool(scene: Scene, every: dict[str, Array], shape: Shape) -> list[Term]:
    """Expressions over named arrays that could stand where a value of a shape stands."""
    arrays = _nearest_first(every, shape)
    key = (shape, tuple([(k, v.tobytes()) for k, v in arrays.items()]))
    if key not in scene.pool:
        formed = [*_products_and_sums(scene, arrays, shape), *_projections(scene, arrays, shape)]
        formed += [*_outer(arrays, shape), *_reshaped(scene, arrays, shape)]
        scene.pool[key] = [t for t in formed if np.all(np.isfinite(t.value)) and np.any(t.value)]
    return scene.pool[key]


def _nearest_first(arrays: dict[str, Array], shape: Shape) -> dict[str, Array]:
    """Those of a shape first, then those that fill it."""

    def far(name: str) -> int:
        here = arrays[name].shape
        return 0 if here == shape else 1 if fills(here, shape) else 2

    return {k: arrays[k] for k in sorted(arrays, key=far)}


def fills(a: Shape, shape: Shape) -> bool:
    """Whether an array of shape a broadcasts to `shape`."""
    pairs = zip(reversed(a), reversed(shape), strict=False)
    return len(a) <= len(shape) and all(m in (1, n) for m, n in pairs)


def with_axes(name: str, shape: Shape, most: int) -> Iterator[tuple[str, Shape, float]]:
    """An array, and what it is with axes of length 1 between and behind its own, up to so many; how
    much less likely that is."""
    yield name, shape, 0.0
    for n in range(1, most - len(shape) + 1):
        for places in itertools.combinations(range(len(shape) + n), n):
            if places == tuple(range(n)):
                continue  # In front, axes come by themselves.
            made = list(shape)
            for p in places:
                made.insert(p, 1)
            marks = ["None" if p in places else ":" for p in range(len(made))]
            yield f"{name}[{', '.join(marks)}]", tuple(made), 0.1


def _projections(scene: Scene, arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    """Products less their projections, as in the gradients of a softmax and of norms."""
    same = {k: v for k, v in arrays.items() if v.shape == shape}
    for a, b in itertools.permutations(same, 2):
        x, y = same[a], same[b]
        for axis in range(-1, len(shape) - 1):
            along = scene.dialect.along(axis, True)
            total = (x * y).sum(axis=axis, keepdims=True)
            mean = total / shape[axis]
            inside = f"{b} * ({a} - ({a} * {b}).sum({along}))"
            yield Term(inside, y * (x - total), 0.5, "missing_term")
            text = f"{a} - {b} * ({a} * {b}).mean({along})"
            yield Term(text, x - y * mean, 0.5, "missing_term")


def _products_and_sums(scene: Scene, arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    """Products, differences and squares of named arrays, summed to the shape."""
    atoms = [Term(k, v, 0.0) for k, v in arrays.items()]
    for term in _pairs(scene, atoms):
        yield from sums_to(scene, term, shape)
    atoms = atoms[:8]
    atoms += [Term(f"(1 - {a.text})", 1 - a.value, 0.1) for a in atoms]
    atoms += [Term(f"(1 + {a.text})", 1 + a.value, 0.2) for a in atoms[:8]]
    atoms += [Term(f"{a.text} ** 2", a.value**2, 0.1) for a in atoms[:8]]
    atoms += _differences(atoms[:8])
    yield from [t for a in atoms[8:] for t in sums_to(scene, a, shape)]
    for a, b in itertools.combinations(atoms, 2):
        if (two := _times(a, b)) is not None:
            yield from sums_to(scene, two, shape)
    atoms = [a for a in atoms if a.value.shape == shape][:14]
    for a, b, c in itertools.combinations(atoms, 3):
        if (two := _times(a, b)) is not None and (three := _times(two, c)) is not None:
            yield from sums_to(scene, three, shape)


def _reshaped(scene: Scene, arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    """What has the right number of elements, in the right shape."""
    sizes = [k for k, v in scene.watched.names.items() if _is_size(v, shape)]
    sizes += [f"{k}.shape" for k, v in arrays.items() if v.shape == shape]
    sizes += [scene.draft.src(n) for n in scene.expressions if _is_size(scene.value(n), shape)]
    for name, value in arrays.items():
        if value.shape != shape and value.size == np.prod(shape) and sizes:
            text = f"{operand(name, ATOM)}.reshape({sizes[0]})"
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
        if (
            a.value.ndim
            and b.value.ndim
            and (first or (not same and fills(b.value.shape, a.value.shape)))
        ):
            found.append(Term(f"({a.text} - {b.text})", a.value - b.value, 0.2))
    return found[:16]


def _pairs(scene: Scene, atoms: list[Term]) -> Iterator[Term]:
    yield from atoms
    for a, b in itertools.combinations_with_replacement(atoms, 2):
        if (product := _times(a, b)) is not None:
            yield product
    for a, b in itertools.product(atoms, atoms):
        yield from _matrix_products(scene, a, b)


def _outer(arrays: dict[str, Array], shape: Shape) -> Iterator[Term]:
    """Products of two arrays that have different axes of a shape: `a[:, :, None] * b`."""
    spread = [
        Term(text, arrays[name].reshape(made), cost)
        for name in arrays
        for text, made, cost in with_axes(name, arrays[name].shape, len(shape))
        if fills(made, shape) and made != shape and arrays[name].ndim
    ]
    for a, b in itertools.combinations(spread, 2):
        both = np.broadcast_shapes(a.value.shape, b.value.shape)
        product = _times(a, b) if both == shape and (a.cost or b.cost) else None
        if product is not None:  # Without further axes it is formed already.
            yield product


def _times(a: Term, b: Term) -> Term | None:
    try:
        shape = np.broadcast_shapes(a.value.shape, b.value.shape)
    except ValueError:
        return None
    if np.prod(shape) > _LARGEST:
        return None
    text = f"{operand(a.text, MUL)} * {operand(b.text, MUL + 1)}"
    return Term(text, a.value * b.value, a.cost + b.cost + 0.1)


def _matrix_products(scene: Scene, a: Term, b: Term) -> Iterator[Term]:
    """Matrix products of two arrays, each as it is or transposed."""
    if min(a.value.ndim, b.value.ndim) < 2 or a.value.size * b.value.size > _LARGEST**2:
        return
    for left, right in itertools.product(_forms(scene, a), _forms(scene, b)):
        if left.value.shape[-1] == right.value.shape[-2]:
            try:
                value = left.value @ right.value
            except ValueError:
                continue
            cost = left.cost + right.cost + 0.1
            yield Term(
                f"{operand(left.text, MUL)} @ {operand(right.text, MUL + 1)}",
                value,
                cost,
            )


def _forms(scene: Scene, a: Term) -> list[Term]:
    text = scene.dialect.transposed(a.text, a.value.ndim)
    return [a, Term(text, np.swapaxes(a.value, -1, -2), a.cost + 0.05)]


def sums_to(scene: Scene, term: Term, shape: Shape) -> Iterator[Term]:
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
                    text = f"{operand(term.text, ATOM)}.sum({scene.dialect.along(axis, keep)})"
                    value = term.value.sum(axis=axes, keepdims=keep)
                    yield Term(text, value, term.cost + 0.05)
