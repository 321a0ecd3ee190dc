"""What a user's own code raises within a `Function` is raised as it is, however it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr

X = np.array([0.3, -1.2, 2.0])
MISTAKES: list[Callable[[Any], Any]] = [
    lambda x: dict[str, int]()["missing"],
    lambda x: [x][3],
    lambda x: x.missing_attribute,
    lambda x: int("text"),
    lambda x: x + object(),
    lambda x: 10.0**1000,
    lambda x: endless(x),
    lambda x: 1 // 0,
]


def endless(x: Any) -> Any:
    return endless(x)


WAYS: dict[str, Callable[[Any], Any]] = {
    "apply": lambda f: f(X),
    "graph": lambda f: f(cr.tensor(X, requires_grad=True)),
    "grad": lambda f: cr.grad(f)(X),
    "vmap": lambda f: cr.vmap(f)(X),
    "jit": lambda f: cr.jit(f)(X),
}


def function_of(mistake: Callable[[Any], Any]) -> Callable[[Any], Any]:
    class Wrong(cr.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return mistake(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    return Wrong.apply


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mistake", MISTAKES, ids=range(len(MISTAKES)))
def test_errors_of_forward_are_those_of_the_user(mistake: Callable[[Any], Any], way: str):
    with pytest.raises(Exception) as alone:
        mistake(cr.asarray(X))
    with pytest.raises(Exception) as caught:
        WAYS[way](function_of(mistake))
    assert type(caught.value) is type(alone.value)
    assert "Wrong" not in str(caught.value)


@pytest.mark.parametrize("result", [3.0, [cr.ones(2)], {"a": cr.ones(2)}, None])
def test_a_result_that_is_no_tensor_says_what_to_return(result: Any):
    with pytest.raises(cr.DtypeError, match="return a tensor, an array or a tuple of those"):
        function_of(lambda x: result)(X)
