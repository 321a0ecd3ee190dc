"""What a function of dynamic sizes returns can be differentiated, at every size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn

RNG = np.random.default_rng(5)
SIZES = (5, 6, 3, 5, 11)


def of(*shape: int) -> Any:
    """A leaf that wants a gradient."""
    return cr.tensor(RNG.normal(size=shape), requires_grad=True)


def gradients(f: Callable[..., Any], *xs: Any) -> list[Any]:
    """Those of xs, with respect to a sum in which no two elements weigh the same."""
    for x in xs:
        x.grad = None
    ys = f(*xs)
    total: Any = 0
    for y in ys if isinstance(ys, tuple) else (ys,):
        total = total + (y * cr.asarray(np.arange(1.0, y.size + 1).reshape(y.shape))).sum()
    total.backward()
    return [x.grad.numpy().copy() for x in xs]


CASES: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], Any]] = {
    "elementwise": (lambda x: cr.exp(cr.sin(x)), lambda n: (of(n),), {0: ("T",)}),
    "rows": (lambda x: cr.softmax(x, axis=-1), lambda n: (of(4, n),), {0: (None, "T")}),
    "mean": (lambda x: (x * x).mean(), lambda n: (of(n, 3),), {0: ("T",)}),
    "product": (lambda a, b: a @ b, lambda n: (of(4, n), of(n, 7)), {0: (None, "K"), 1: ("K",)}),
    "two sizes": (
        lambda a, b: cr.tanh(a @ b) / a.shape[0],
        lambda n: (of(n, 4), of(4, n + 2)),
        {0: ("M",), 1: (None, "N")},
    ),
    "several results": (lambda x: (x.sum(axis=0), x * 2, x[0]), lambda n: (of(n, 3),), {0: ("T",)}),
    "one of them known": (lambda x: (cr.exp(x), cr.ones(x.shape)), lambda n: (of(n),), {0: ("T",)}),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_function(name: str):
    f, make, axes = CASES[name]
    compiled = cr.jit(f, dynamic=axes)
    for n in SIZES:
        xs = make(n)
        for mine, plain in zip(gradients(compiled, *xs), gradients(f, *xs), strict=True):
            np.testing.assert_allclose(mine, plain, rtol=1e-12, atol=1e-14)
    assert compiled.traces == 1


def test_state_that_the_function_reaches_gets_its_gradient():
    layer = nn.Linear(3, 2, generator=cr.Generator(1))
    compiled = cr.jit(lambda x: cr.tanh(layer(x)), dynamic={0: ("B",)})
    for n in SIZES:
        x = cr.tensor(RNG.normal(size=(n, 3)), cr.float32)
        found: list[Any] = []
        for f in (compiled, lambda x: cr.tanh(layer(x))):
            layer.zero_grad()
            (f(x) ** 2).sum().backward()
            found.append([p.grad.numpy().copy() for p in layer.parameters()])
        for mine, plain in zip(*found, strict=True):
            np.testing.assert_allclose(mine, plain, rtol=2e-5, atol=1e-6)
    assert compiled.traces == 1


def test_a_result_without_a_cotangent_has_the_shape_of_this_call():
    compiled = cr.jit(lambda x: (cr.exp(x), cr.sin(x)), dynamic={0: ("T",)})
    for n in SIZES:
        x = of(n)
        compiled(x)[1].sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()), rtol=1e-12)


def test_higher_derivatives_and_forward_mode():
    f = lambda x: (cr.sin(x) * x).sum()
    compiled = cr.jit(f, dynamic={0: ("T",)})
    for n in (4, 7):
        x, v = cr.tensor(RNG.normal(size=n)), cr.tensor(RNG.normal(size=n))
        for mine, plain in (
            (cr.hvp(compiled, (x,), (v,))[0], cr.hvp(f, (x,), (v,))[0]),
            (cr.jvp(compiled, (x,), (v,))[1], cr.jvp(f, (x,), (v,))[1]),
        ):
            np.testing.assert_allclose(mine.numpy(), plain.numpy(), rtol=1e-12)


def test_a_size_at_which_only_the_derivative_is_another():
    """At 8 the values are the same, and less of a gradient flows: a trace of its own."""

    def f(x: Any) -> Any:
        return (x.detach() if x.shape[0] == 8 else x) * 2.0 + x * 0.0

    compiled = cr.jit(f, dynamic={0: ("T",)})
    for n in (5, 8, 6):
        x = of(n)
        np.testing.assert_array_equal(gradients(compiled, x)[0], gradients(f, x)[0])
