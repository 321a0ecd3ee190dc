"""Wrong arguments for every public callable: the answer is ours, and names function and argument.

A selection of calls, drawn the same in each run; `make sweep` makes them all.
"""

# ruff: noqa: E501 (a table: one call, one line)

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.engine.arguments import fits
from tests.public.bad_arguments import (
    SPACES,
    WITHOUT,
    Valid,
    complaint,
    everything,
    names,
    public_names,
    wrong_calls,
)

pytestmark = pytest.mark.filterwarnings("ignore")
SHARE = 12
"""One of so many calls is made in each run of the tests."""


@pytest.mark.parametrize("name", names())
def test_wrong_calls_are_answered(name: str):
    valid = everything()[name]
    args, kwargs = valid.make()
    valid.f(*args, **kwargs)
    rng = random.Random(name)
    calls = [w for w in wrong_calls(valid) if rng.random() * SHARE < 1]
    assert not [str(w) + ": " + c for w in calls if (c := complaint(w)) is not None]


@pytest.mark.sweep
@pytest.mark.parametrize("name", names())
def test_all_wrong_calls_are_answered(name: str):
    found = [(w, complaint(w)) for w in wrong_calls(everything()[name])]
    assert not [f"{w}: {c}" for w, c in found if c is not None]


def test_every_public_callable_has_a_row():
    named = {
        name
        for space in SPACES.values()
        for name in public_names(space)
        if callable(x := getattr(space, name))
        and not (isinstance(x, type) and issubclass(x, Exception))
    }
    assert named - {key.partition(".")[2] for key in everything()} == WITHOUT
    assert sorted(names()) == sorted(everything())


def test_a_bad_answer_is_noticed():
    def quux(x: Any) -> Any:
        if isinstance(x, str):
            raise TypeError("private")
        if isinstance(x, dict):
            raise cr.ShapeError("another function: no")
        if isinstance(x, set):
            raise cr.ShapeError("quux: apply() got something")
        if x is None:
            raise cr.DtypeError("quux: x must be a number")
        return x

    valid = Valid("quux", quux, lambda: ((1.0,), {}))
    found = {w.what: complaint(w) for w in wrong_calls(valid)}
    assert found["None"] is None and found["NaN"] is None
    assert (found["a string"] or "").startswith("TypeError")
    assert (found["a dict"] or "").startswith("does not name")
    assert (found["a set"] or "").startswith("speaks of apply(")


T = cr.tensor(np.array([[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]))
SAID: dict[str, tuple[Any, list[str]]] = {
    "a number of classes": (lambda: nn.functional.multi_margin_loss(cr.tensor(1.0), cr.tensor(0)), ["multi_margin_loss", "axis of classes"]),
    "np.transpose": (lambda: np.transpose(T, 0), ["np.transpose", "int 0"]),
    "axes": (lambda: cr.fft.fftn(T, axes=0), ["fftn", "axes must be several integers", "int 0"]),
    "twice": (lambda: cr.scatter_add(T, np.array([0]), T, axis=0), ["scatter_add", "'axis' twice"]),
    "inplace": (lambda: cr.relu(T, inplace=True), ["relu", "'inplace'", "use the result"]),
    "out by place": (lambda: cr.exp(T, cr.ones_like(T)), ["exp takes 1 array, not 2"]),
    "a class": (lambda: cr.softmax(np.float32), ["softmax", "x must be", "the class numpy.float32"]),
    "one of two": (lambda: cr.why(3), ["why needs its argument 'p'"]),
    "sizes by place": (lambda: cr.zeros(2, 3), ["zeros", "dtype", "zeros((2, 3))"]),
    "more sizes by place": (lambda: cr.zeros(2, 3, 4), ["zeros", "(2, 3, 4)"]),
    "a flag as an axis": (lambda: cr.std(T, True), ["std", "axis must be", "True"]),
    "an array as an axis": (lambda: cr.max(T, cr.tensor(1)), ["max", "maximum"]),
    "a layer": (lambda: nn.Linear("a", 3), ["Linear", "in_features"]),
    "an optimizer": (lambda: cr.optim.SGD(cr.ones(2, requires_grad=True), 0.1), ["SGD", "[p]"]),
    "no function": (lambda: cr.grad(T), ["grad", "f must be a function"]),
}  # fmt: skip


def test_a_tuple_has_a_kind_for_each_place():
    assert fits([("a", 1.5)], Sequence[tuple[str, Any]])
    assert not fits([("a", 1.5)], Sequence[tuple[str, int]])
    assert not fits([("a",)], Sequence[tuple[str, Any]])
    assert fits((1, 2, 3), tuple[int, ...]) and not fits((1, "a"), tuple[int, ...])


@pytest.mark.parametrize("what", SAID)
def test_what_is_said(what: str):
    call, said = SAID[what]
    with pytest.raises(cr.ChainruleError) as caught:
        call()
    assert not [part for part in said if part not in str(caught.value)], caught.value


def test_an_array_is_not_written_to_by_a_further_argument():
    x, y = cr.tensor([0.5, 1.5]), cr.tensor([7.0, 8.0])
    for op in (cr.exp, cr.sin, cr.sqrt):
        with pytest.raises(cr.DtypeError):
            op(x, y)
    with pytest.raises(cr.DtypeError):
        cr.add(x, x, y)
    assert y.tolist() == [7.0, 8.0]


def test_lists_that_are_nested_too_deep_or_hold_themselves():
    deep: Any = [1.0]
    for _ in range(900):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for x in (deep, endless):
        for f in (cr.tensor, cr.asarray, cr.sum, cr.relu, cr.concat, cr.stack):
            with pytest.raises(cr.ChainruleError, match=f.__name__ if f is not cr.relu else "relu"):
                f(x)
