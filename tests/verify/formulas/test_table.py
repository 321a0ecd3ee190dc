"""What holds for every row of the table of known formulas."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations, zip_longest
from typing import Any

import numpy as np
import pytest

from chainrule.verify.formulas.formula import Formula, arguments
from chainrule.verify.formulas.table import FORMULAS
from tests.verify.formulas.comparing import alike, is_one_of
from tests.verify.formulas.references import REFERENCES
from tests.verify.formulas.samples import sample, shapes, variants

EQUAL: dict[frozenset[str], str] = {
    frozenset(("cosine loss", "cosine similarity")): "one is a loss, with its mean",
    frozenset(("least squares loss of generators", "standard normal log-density")): "a square",
    frozenset(("points between real and fake", "point of a straight flow")): "two uses",
    frozenset(("velocity of noise and data", "data by predicted velocity")): "a rotation back",
    frozenset(("layer normalization", "standardization")): "of one axis or of any",
    frozenset(("running statistics", "exponential average")): "whose share the number is",
    frozenset(("InfoNCE", "CLIP loss")): "a temperature or its logarithm",
    frozenset(("mixup", "loss of mixup")): "one is a loss, with its mean",
}
"""Rows that state one value under the same words: why."""

rows = pytest.mark.parametrize("row", FORMULAS, ids=[f"{f.name}-{f.takes}" for f in FORMULAS])


@rows
def test_arguments_are_well_formed(row: Formula):
    names = [a.name for a in arguments(row)]
    assert names and len(set(names)) == len(names)
    assert row.words and all(w == w.lower() and w.strip("*").isalnum() for w in row.words)
    assert row.source and row.name


def test_no_row_stands_twice():
    assert not [k for k, n in Counter((f.name, f.takes) for f in FORMULAS).items() if n > 1]


@rows
def test_values_are_finite(row: Formula):
    for seed, whole in enumerate(shapes(row)):
        values = list(variants(row, sample(row, seed, whole)))
        assert values
        for value in values:
            parts = value if isinstance(value, tuple) else (value,)
            assert all(np.isfinite(np.asarray(x, float)).all() for x in parts)


@rows
def test_value_depends_on_every_argument(row: Formula):
    for k, argument in enumerate(arguments(row)):
        assert any(
            _depends(row, k, seed, other) for seed in range(12) for other in range(12, 15)
        ), argument


def _depends(row: Formula, k: int, seed: int, other: int) -> bool:
    args = _at(row, seed, seed)
    moved = [*args[:k], _at(row, other, other)[k], *args[k + 1 :]]
    pairs = zip_longest(variants(row, args), variants(row, moved))
    return any(not alike([a], [b], "") for a, b in pairs)


def _at(row: Formula, seed: int, numbers: int = 0) -> list[Any]:
    return sample(row, seed, shapes(row)[0], numbers)


@rows
def test_value_is_that_of_another_source(row: Formula):
    """Of PyTorch or SciPy, or one that is written another way."""
    reference = REFERENCES[row.name]
    for numbers in range(2):
        points = [_at(row, seed, numbers) for seed in range(3)]
        values = [list(variants(row, args)) for args in points]
        for n, expected in enumerate(zip(*[reference(*args) for args in points], strict=True)):
            assert is_one_of(values, expected, row.up_to), f"value {n}, numbers {numbers}"


@rows
def test_value_at_other_points_is_refused(row: Formula):
    """What compares values tells them apart."""
    points, others = ([_at(row, seed, 0) for seed in seeds] for seeds in (range(3), range(3, 6)))
    if any(a.axes != () and a.kind == "float" for a in arguments(row)):
        values = [list(variants(row, args)) for args in points]
        other = [next(iter(variants(row, args))) for args in others]
        assert not is_one_of(values, other, row.up_to)


def test_references_are_of_rows():
    assert not {*REFERENCES} - {f.name for f in FORMULAS}


def _kinds(row: Formula) -> list[Any]:
    return sorted((str(a.axes), a.kind) for a in arguments(row) if a.name != "eps")


def _speak_alike(a: Formula, b: Formula) -> bool:
    return any(x.startswith(y.rstrip("*")) or y.startswith(x.rstrip("*"))
               for x in a.words for y in b.words)  # fmt: skip


PAIRS = [
    (a, b)
    for a, b in combinations(FORMULAS, 2)
    if a.takes != b.takes or a.name != b.name
    if _kinds(a) == _kinds(b) and _speak_alike(a, b)
]


def _arguments_as(a: Formula, b: Formula, order: tuple[int, ...], args: list[Any]) -> list[Any]:
    """Those of `b` for those of `a` in an order; `eps` is 0 in both."""
    given = iter(order)
    return [0.0 if x.name == "eps" else args[next(given)] for x in arguments(b)]


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=[f"{a.name}-{b.name}" for a, b in PAIRS])
def test_no_two_rows_state_one_value(a: Formula, b: Formula):
    """Under the same words, whichever argument stands for which."""
    if frozenset((a.name, b.name)) in EQUAL:
        return
    own = [k for k, x in enumerate(arguments(a)) if x.name != "eps"]
    shapes = [(x.axes, x.kind) for x in arguments(b) if x.name != "eps"]
    kinds = [(x.axes, x.kind) for x in arguments(a)]
    with np.errstate(all="ignore"):
        for order in permutations(own):
            if [kinds[k] for k in order] != shapes:
                continue
            points = [_without_eps(a, sample(a, seed)) for seed in range(3)]
            firsts = [next(iter(variants(b, _arguments_as(a, b, order, x)))) for x in points]
            values = [list(variants(a, x)) for x in points]
            assert not is_one_of(values, firsts, a.up_to), order


def _without_eps(row: Formula, args: list[Any]) -> list[Any]:
    return [0.0 if x.name == "eps" else v for x, v in zip(arguments(row), args, strict=True)]
