"""An index that is outside is an error of a compiled call, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.compile.graph.rules.index_checks import add_index_checks
from chainrule.compile.graph.terms import Program, Terms, Values
from chainrule.errors import IndexingError
from chainrule.ops.indexing.selection import Take, TakeAlong
from tests.sampling import sampled

TABLE = np.arange(15.0).reshape(5, 3)


def rows(i: Any) -> Any:
    return cr.take(cr.tensor(TABLE), i, axis=0)


@pytest.mark.parametrize("bad", [[0, 5], [-6, 1], [2, 1 << 40]])
def test_an_index_that_is_outside(bad: list[int]):
    f = cr.jit(rows)
    np.testing.assert_array_equal(f(cr.tensor([0, -5])).numpy(), TABLE[[0, 0]])
    with pytest.raises(IndexingError, match=r"'take' at .*test_bounds.py:\d+ is outside 0..4"):
        f(cr.tensor(bad))
    np.testing.assert_array_equal(f(cr.tensor([4, 1])).numpy(), TABLE[[4, 1]])


X = cr.tensor(np.arange(12.0).reshape(4, 3))
ONE = cr.tensor([[7.0, 8.0, 9.0]])
BY_INDEX: dict[str, Any] = {
    "x[i]": lambda i: X[i],
    "x[i, 1]": lambda i: X[i, 1],
    "x[:, i]": lambda i: X[:, i],
    "x[..., None, i]": lambda i: X[..., None, i],
    "x[i, i]": lambda i: X[i, i],
    "take": lambda i: cr.take(X, i, axis=0),
    "take_along_axis": lambda i: cr.take_along_axis(X, i[:, None], axis=0),
    "put": lambda i: cr.put(X, i * 3, 1.0),
    "index_put": lambda i: cr.index_put(X, (i,), 1.0),
    "index_put, adding": lambda i: cr.index_put(X, (i,), 1.0, accumulate=True),
    "index_copy": lambda i: cr.index_copy(X, 0, i, ONE),
    "index_add": lambda i: cr.index_add(X, 0, i, ONE),
    "scatter": lambda i: cr.scatter(X, 0, i[:, None], 1.0),
    "scatter_add": lambda i: cr.scatter_add(X, 0, i[:, None], ONE),
    "scatter_reduce": lambda i: cr.scatter_reduce(X, 0, i[:, None], ONE, "amax"),
    "gradient of x[i]": lambda i: cr.grad(lambda x: (x[i] ** 2).sum())(X),
    "vmap": lambda i: cr.vmap(lambda j: X[j])(i),
    "cross_entropy": lambda i: cr.cross_entropy(ONE, i),
    "nll_loss": lambda i: nn.functional.nll_loss(ONE, i),
    "multi_margin_loss": lambda i: nn.functional.multi_margin_loss(ONE, i),
}


@sampled(one_in=3)
@pytest.mark.parametrize("what", BY_INDEX)
def test_compiled_code_refuses_the_indices_that_eager_code_refuses(what: str):
    f = BY_INDEX[what]
    for i in (0, 2, -1, -3, -5, 4, 9, 200):
        for dtype in (cr.int64, cr.int8 if i < 128 else cr.int16, *[cr.uint8] * (i >= 0)):
            index = cr.tensor([i], dtype=dtype)
            try:
                want = f(index).numpy()
            except IndexingError:
                with pytest.raises(IndexingError, match="outside"):
                    cr.jit(f)(index)
            else:
                np.testing.assert_allclose(cr.jit(f)(index).numpy(), want, rtol=1e-6)


def test_of_a_size_that_is_not_known():
    f = cr.jit(rows, dynamic={"i": ("N",)})
    assert f(cr.tensor([0, 4])).shape == (2, 3)
    assert f(cr.tensor([0, 4, 1])).shape == (3, 3)
    with pytest.raises(IndexingError, match="outside"):
        f(cr.tensor([7]))


def test_in_one_of_many_calls():
    f = cr.jit(rows)
    good, bad = (cr.tensor([0, 1]),), (cr.tensor([5, 1]),)
    assert f.loop([good] * 4).shape == (4, 2, 3)
    with pytest.raises(IndexingError, match="outside"):
        f.loop([good, good, bad, good])


def test_in_a_turn_of_a_scan():
    f = cr.jit(lambda i: cr.scan(lambda s, i: (s + X[i].sum(), s), cr.tensor(np.float64(0)), i)[0])
    assert f(cr.tensor([0, 3, -1])).item() == X.numpy()[[0, 3, -1]].sum()
    with pytest.raises(IndexingError, match=r"'getitem' at .*test_bounds.py:\d+ is outside 0..3"):
        f(cr.tensor([0, 9, 1]))


def test_each_index_has_a_bit():
    terms = Terms()
    x = terms.constant(TABLE)
    i, j = (terms.input(k, (5, 3), np.dtype(np.int64)) for k in (0, 1))
    y, z = terms.op(Take(0), [x, i]), terms.op(TakeAlong(1), [x, j])
    program, words = add_index_checks(Program((i, j), (y, z)), terms)
    assert len(words) == 2
    inside, outside = np.zeros((5, 3), np.int64), np.full((5, 3), 9)
    for bits, given in ((0, (inside, inside)), (1, (outside, inside)), (2, (inside, outside))):
        tame = [np.clip(g, 0, 2) for g in given]
        flags = Program(program.inputs, program.results[-1:])
        assert int(Values(flags).run(given)[0][0]) == bits
        assert int(Values(flags).run(tame)[0][0]) == 0


def test_indices_that_are_known_are_not_looked_at():
    terms = Terms()
    x, i = terms.constant(TABLE), terms.constant(np.array([0, 1]))
    program = Program((), (terms.op(Take(0), [x, i]),))
    assert add_index_checks(program, terms) == (program, [])
