"""Phases of a kernel of rows that keep their numbers where the result will be."""

from __future__ import annotations

import re

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.loops.check.accesses import SpecError
from chainrule.compile.lower import row_kernels

ROWS, WIDTH = 37, 45


def _softmax(x):
    return cr.softmax(x, axis=-1)


def _layer_norm_back(x):
    _, pull = cr.vjp(lambda x: cr.layer_norm(x), x)
    return pull(x)[0]


def _turned_back(x):
    e = cr.exp(x)
    return cr.flip(e, axis=-1) / cr.sum(e, axis=-1, keepdims=True)


def _read_after(x):
    e = cr.exp(x)
    y = e / cr.sum(e, axis=-1, keepdims=True)
    return y, e * cr.max(y, axis=-1, keepdims=True)


def _other_dtype(x):
    e = cr.exp(x)
    return cr.astype(e / cr.sum(e, axis=-1, keepdims=True), np.float64)


def _wanted_too(x):
    e = cr.exp(x)
    return e, e / cr.sum(e, axis=-1, keepdims=True)


def scratch_rows(step):
    """How many buffers of a full array the program needs beside its results."""
    return len(re.findall(rf"\[{ROWS}, {WIDTH}\] scratch", str(step.loops())))


@pytest.mark.parametrize(
    ("f", "kept"),
    [
        (_softmax, 0),
        (_layer_norm_back, 0),
        (_read_after, 0),
        (_turned_back, 1),
        (_other_dtype, 1),
        (_wanted_too, 0),
    ],
)
def test_memory_is_shared_where_each_element_is_read_before_it_is_overwritten(f, kept):
    x = cr.asarray(np.random.default_rng(3).standard_normal((ROWS, WIDTH), dtype=np.float32))
    step = cr.jit(f)
    got, expected = step(x), f(x)
    got, expected = [y if isinstance(y, tuple) else (y,) for y in (got, expected)]
    for y, right in zip(got, expected, strict=True):
        np.testing.assert_allclose(y.numpy(), right.numpy(), rtol=2e-5, atol=2e-6)
    assert scratch_rows(step) == kept


def test_the_order_of_reading_and_writing_is_what_decides(monkeypatch: pytest.MonkeyPatch):
    """Shared in spite of it, memory is overwritten at one end while it is read from the other:
    what is called independent is not, and the checker finds that."""
    monkeypatch.setenv("CHAINRULE_CACHE_DIR", "")
    monkeypatch.setattr(row_kernels.Uses, "can_share", lambda *_: True)
    x = cr.asarray(np.random.default_rng(3).standard_normal((ROWS, WIDTH), dtype=np.float32))
    with pytest.raises(SpecError, match=r"turns 0 and 44 of .* meet in"):
        cr.jit(_turned_back)(x)


@pytest.mark.parametrize("scaled", [False, True])
def test_a_loss_of_classes_and_its_gradient_go_through_the_rows_once(scaled):
    """What is worked out of the classes is no kernel of its own between those of the rows."""

    def loss(x, classes, g):
        y, pull = cr.vjp(lambda x: cr.cross_entropy(x, classes), x)
        return y, pull(g if scaled else cr.ones_like(y))

    rng = np.random.default_rng(0)
    x = cr.asarray(rng.normal(size=(ROWS, WIDTH)).astype(np.float32))
    classes, g = cr.asarray(rng.integers(0, WIDTH, ROWS)), cr.asarray(np.float32(1.5))
    step = cr.jit(loss)
    y, (x_bar,) = step(x, classes, g)
    want, (bar,) = loss(x, classes, g)
    np.testing.assert_allclose(y.numpy(), want.numpy(), rtol=1e-6)
    np.testing.assert_allclose(x_bar.numpy(), bar.numpy(), rtol=1e-5, atol=1e-8)
    assert scratch_rows(step) == 0
    assert len(re.findall(r"for i\d+ < 45", str(step.loops()))) == 3  # max, sum, gradient
    with pytest.raises(cr.IndexingError):
        step(x, cr.asarray(np.full(ROWS, -1)), g)


def test_what_becomes_state_at_the_end_is_not_overwritten_before():
    """Two states that are made of each other: one of them is copied to its place at the end."""
    draw = np.random.default_rng(3)
    first, second = draw.normal(size=(2, ROWS, WIDTH))
    for read in (cr.softmax, lambda x, axis: x / cr.sum(x, axis=axis, keepdims=True)):
        a, b = cr.tensor(first, requires_grad=True), cr.tensor(second, requires_grad=True)

        @cr.jit
        def step(a=a, b=b, read=read):
            with cr.no_grad():
                new = [cr.exp(cr.flip(x, axis=1)) for x in (b, a)]
                out = [read(x, axis=-1) for x in new]
                a.data, b.data = new
            return out

        step()
        np.testing.assert_allclose(a.detach().numpy(), np.exp(second[:, ::-1]))
        np.testing.assert_allclose(b.detach().numpy(), np.exp(first[:, ::-1]))
