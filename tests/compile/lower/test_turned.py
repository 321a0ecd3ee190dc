"""A product that is only read transposed is computed that way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.graph.terms import Program, Terms, Values, in_order
from chainrule.compile.lower.term_passes import without_transposed_products
from chainrule.ops.contraction import MatMul
from chainrule.ops.shapes.shaping import Permute

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(2, 3, 4))
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "transposed": lambda a, b: (a @ b).mT,
    "of transposed ones": lambda a, b: (b.mT @ a.mT).mT,
    "both": lambda a, b: ((a @ b), (a @ b).mT * 2),
    "twice": lambda a, b: ((a @ b).mT + 1, (a @ b).mT * 2),
    "one matrix for all": lambda a, b: (a @ b[0]).mT,
    "other axes": lambda a, b: cr.permute_dims(a @ b, (2, 1, 0)),
    "gradient of w in x @ w.T": lambda a, b: cr.grad(lambda w: cr.tanh(a[0] @ w.T).sum())(b[0].T),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_numbers_are_the_same(name: str):
    f, args = FORMS[name], (cr.tensor(A), cr.tensor(B))
    got, want = cr.jit(f)(*args), f(*args)
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for g, w in pairs:
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-12)


def _program(*, also: bool) -> Program:
    terms = Terms()
    a, b = terms.input(0, A.shape, A.dtype), terms.input(1, B.shape, B.dtype)
    product = terms.op(MatMul(), [a, b])
    across = terms.op(Permute((0, 2, 1)), [product])
    return Program((a, b), (across, product) if also else (across,))


def test_no_transpose_is_left():
    program = without_transposed_products(_program(also=False))
    assert not [t for t in in_order(program.roots) if isinstance(t.op, Permute)]
    ((got,), _), ((want,), _) = (Values(p).run([A, B]) for p in (program, _program(also=False)))
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_a_product_that_is_read_both_ways_is_computed_once():
    program = _program(also=True)
    assert without_transposed_products(program) is program
