"""What a compiled call returns has the structure that the function gave it."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.tree import flatten


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Model:
    weight: Any
    parts: Any


STRUCTURES = [
    lambda a, b: a,
    lambda a, b: (a,),
    lambda a, b: [b, (a, [], ())],
    lambda a, b: {"b": b, "a": {"it's": a, 3: "text", "none": None}},
    lambda a, b: Pair(b, Pair([a], 7)),
    lambda a, b: Model({"w": a}, (b, Model(None, 2.5))),
    lambda a, b: OrderedDict(z=a, y=b, x=a),
    lambda a, b: (a, a, b, np.arange(3)),
    lambda a, b: (None, "constant"),
]


@pytest.mark.parametrize("make", STRUCTURES)
def test_it_is_what_eager_code_returns(make: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return make(x * 2, x.sum() - y)

    step = cr.jit(f)
    x, y = cr.tensor(np.arange(6.0).reshape(2, 3)), cr.tensor(5.0)
    want, structure = flatten(f(x, y))
    for _ in range(3):
        leaves, found = flatten(step(x, y))
        assert str(found) == str(structure)
        assert list(map(type, leaves)) == list(map(type, want))
        for a, b in zip(leaves, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_what_it_returns_is_new_in_each_call() -> None:
    step = cr.jit(lambda x: {"y": [x * 2]})
    x = cr.tensor([1.0, 2.0])
    first, second = step(x), step(x)
    assert first is not second and first["y"] is not second["y"]
    assert first["y"][0] is not second["y"][0]
    first["y"].append(None)
    assert len(step(x)["y"]) == 1


def test_tensors_that_can_be_differentiated_stay_so() -> None:
    step = cr.jit(lambda w: (w * w, "name", [w.sum()]))
    w = cr.tensor([1.0, 3.0], requires_grad=True)
    for _ in range(3):
        w.grad = None
        squares, name, (total,) = step(w)
        (squares.sum() + total).backward()
        assert name == "name"
        np.testing.assert_array_equal(w.grad.numpy(), [3.0, 7.0])
