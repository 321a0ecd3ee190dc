"""Terms that a value lacks: what is missing is known by its value, and looked up.

A value that is no cotangent of the forward's, and would be one with a term more, lacks that term.
Cotangents are known by their products with a few directions (`cotangents.py`), and so is what is
missing. In a loop that is asked of the first turn in which it is none, where what comes in is right
still. Nothing of the user's is run for it.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from chainrule.verify.repair.budget import TERMS_LOOKED_UP
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.code.parentheses import ADD, MUL, as_operand, operand
from chainrule.verify.repair.code.syntax import mentions
from chainrule.verify.repair.expected.cotangents import DIRECTIONS, forward_of, products
from chainrule.verify.repair.expected.multiples import flows
from chainrule.verify.repair.problem import Forward
from chainrule.verify.repair.values.derivative_terms import derived_terms
from chainrule.verify.repair.values.expression_pool import Term, named_arrays
from chainrule.verify.repair.values.lab import Lab
from chainrule.verify.repair.values.numbers import Scalar, coefficient, scalars
from chainrule.verify.repair.values.scene import Scene, Shape
from chainrule.verify.repair.values.watch import Visit, plain
from chainrule.verify.subject import Array, extent
from chainrule.verify.tolerances import CLOSE

_COST = 1.3


def lacking_terms(lab: Lab) -> Iterator[Edit]:
    """Edits that add to whole values of the backward what they lack to be cotangents."""
    forward = forward_of(lab.problem, lab.target)
    numbers = scalars(lab.scene, None)
    for node in lab.scene.roots:
        visits = lab.scene.visits(node)
        if visits and flows(lab, node) and not _is_part(lab.scene, node):
            yield from _of_value(lab.scene, node, visits, forward, numbers)


def _of_value(
    scene: Scene, node: ast.expr, visits: Sequence[Visit], forward: Forward, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Edits that add a term to a value, in the first turn in which it is no cotangent: what only
    comes from a turn before is not lacking in the first one."""
    for visit in visits:
        value = plain(visit[0])
        if value is None or value.dtype.kind != "f" or value.size < DIRECTIONS:
            return
        if not (known := forward.cotangents.get(value.shape, [])):
            return
        true, seen = np.array(known), products(value)
        missing = true - seen
        sizes = np.linalg.norm(true, axis=1) + np.linalg.norm(seen)
        if not np.any(np.linalg.norm(missing, axis=1) <= CLOSE * sizes):
            yield from _added(scene, node, visit, missing, numbers)
            return


def _is_part(scene: Scene, node: ast.expr) -> bool:
    """Whether a value is added to another one, so that it is part of a cotangent at most."""
    return isinstance(scene.draft.parents[node], ast.AugAssign)


def _added(
    scene: Scene, node: ast.expr, visit: Visit, missing: Array, numbers: list[Scalar]
) -> Iterator[Edit]:
    """Edits that add a term to a value; `missing` is what it may lack, of each cotangent."""
    left = np.linalg.norm(missing, axis=1)
    found = dict[str, Edit]()
    for term in _terms(scene, node, visit):
        p = products(term.value)
        weights = missing @ p / (p @ p)
        apart = np.linalg.norm(missing - weights[:, None] * p, axis=1)
        for w in weights[apart <= CLOSE * left]:
            for text, cost in coefficient(term.text, (float(w),), numbers):
                whole = f"{as_operand(scene.draft, node, ADD)} {text}"
                edit = scene.put(node, whole, "missing_term", _COST + term.cost + cost)
                found.setdefault(text, edit)
    yield from found.values()


def _terms(scene: Scene, node: ast.expr, visit: Visit) -> Iterator[Term]:
    """Terms of the shape of a value: a cotangent within reach times up to two factors."""
    shape = extent(visit[0])
    arrays = named_arrays(scene, node, visit)
    yield from derived_terms(scene, node, visit, arrays)
    flowing = {k for k in arrays if mentions(ast.parse(k, mode="eval")) & scene.flowing}
    factors = [f for k, v in arrays.items() if k not in flowing for f in _forms(k, v)]
    cotangents = [Term(k, arrays[k], 0.0) for k in arrays if k in flowing]
    chosen = itertools.chain.from_iterable(
        itertools.combinations_with_replacement(factors, n) for n in (0, 1, 2)
    )
    tried = 0
    for some in chosen:
        for cotangent in cotangents:
            tried += 1
            if tried * max(1, math.prod(shape)) > TERMS_LOOKED_UP:
                return
            made = _product([cotangent, *some], shape)
            if made is not None:
                texts = [operand(cotangent.text, MUL), *[operand(f.text, MUL + 1) for f in some]]
                cost = 0.1 * len(some) + sum([f.cost for f in some])
                yield Term(" * ".join(texts), made, cost)


def _product(terms: Sequence[Term], shape: Shape) -> Array | None:
    """What is of that shape, and not all zero; None if their product is not."""
    try:
        if np.broadcast_shapes(*[t.value.shape for t in terms]) != shape:
            return None
    except ValueError:
        return None
    made = math.prod([t.value for t in terms], start=np.ones(()))
    return made if np.all(np.isfinite(made)) and np.any(made) else None


def _forms(name: str, value: Array) -> Iterator[Term]:
    """A factor, and what derivatives of gates and squashing functions make of one."""
    yield Term(name, value, 0.0)
    yield Term(f"(1 - {name})", 1 - value, 0.1)
    yield Term(f"(1 - {operand(name, MUL + 1)} ** 2)", 1 - value**2, 0.2)
