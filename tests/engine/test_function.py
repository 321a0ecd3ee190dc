"""Functions that users define: derivatives of every kind, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine.function import Context
from chainrule.errors import DtypeError, GradientError, ShapeError

X = np.array([0.3, -1.2, 2.0])


class Sigmoid(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = cr.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


class ProductAndSum(cr.Function):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, scale: float) -> Any:
        ctx.save_for_backward(a, b)
        ctx.scale = scale
        return a * b * scale, a + b

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b * ctx.scale + h, g * a * ctx.scale + h, None


class Hidden(cr.Function):
    """Keeps a value of its own on ctx: right once, unknown twice."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.e = cr.exp(x)
        ctx.save_for_backward(x)
        return x * ctx.e

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * (ctx.e + x * ctx.e)


class Forward(cr.Function):
    """States only its tangents."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return cr.sin(x)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return t * cr.cos(x)


def pair(a: Any, b: Any) -> Any:
    p, s = ProductAndSum.apply(a, b, 3.0)
    return cr.sum(p * s)


@pytest.mark.parametrize(
    ("mine", "plain"),
    [
        (lambda x: cr.sum(Sigmoid.apply(x)), lambda x: cr.sum(cr.sigmoid(x))),
        (lambda x: pair(x, cr.cos(x)), lambda x: cr.sum(3 * x * cr.cos(x) * (x + cr.cos(x)))),
        (lambda x: cr.sum(Forward.apply(x)), lambda x: cr.sum(cr.sin(x))),
    ],
    ids=["sigmoid", "two results", "jvp only"],
)
def test_every_derivative_is_that_of_the_plain_function(mine: Any, plain: Any) -> None:
    for derive in (
        cr.grad,
        cr.hessian,
        lambda f: lambda x: cr.jvp(f, (x,), (np.cos(x),))[1],
        lambda f: lambda x: cr.hvp(f, (x,), (np.cos(x),))[0],
        lambda f: cr.grad(lambda x: cr.sum(cr.grad(f)(x) ** 2)),
    ):
        np.testing.assert_allclose(derive(mine)(X).numpy(), derive(plain)(X).numpy(), rtol=1e-12)


def test_a_hidden_value_is_right_once_in_both_modes_and_refused_twice() -> None:
    def f(x: Any) -> Any:
        return cr.sum(Hidden.apply(x))

    want = np.exp(X) * (1 + X)
    np.testing.assert_allclose(cr.grad(f)(X).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(cr.jvp(f, (X,), (X,))[1].numpy(), (want * X).sum(), rtol=1e-12)
    for twice in (cr.hessian(f), cr.grad(lambda x: cr.sum(cr.grad(f)(x)))):
        with pytest.raises(GradientError, match=r"Hidden cannot be differentiated twice.*ctx\.e"):
            twice(X)


def test_one_result_unused_gives_zero_cotangent() -> None:
    got = cr.grad(lambda a: cr.sum(ProductAndSum.apply(a, X, 2.0)[1]))(X)
    np.testing.assert_array_equal(got.numpy(), np.ones(3))


def test_needs_input_grad_tells_which() -> None:
    seen: list[Any] = []

    class Watch(cr.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    Watch.apply(cr.tensor(X, requires_grad=True), cr.tensor(X))
    assert seen == [(True, False)]


def bad(result: Any) -> Any:
    class Bad(cr.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, k: int) -> Any:
            return x * k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return result(g)

    return lambda: cr.grad(lambda x: cr.sum(Bad.apply(x, 2)))(X)


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (lambda g: g, ShapeError, "Bad.backward returned 1 gradients; forward takes 2 arguments"),
        (lambda g: (g.sum(), None), ShapeError, r"returned float64 \(\) for argument 0, which is"),
        (lambda g: (g.astype(np.float32), None), DtypeError, r"returned float32 \(3,\) for arg"),
        (lambda g: (None, None), GradientError, "returned None for argument 0.*return zeros"),
    ],
)
def test_a_wrong_backward_is_named(result: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        bad(result)()


def test_what_forward_returns_and_saves_is_checked() -> None:
    class NoTensor(cr.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return "text"

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    class SavesNumber(NoTensor):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(3)
            return x

    with pytest.raises(DtypeError, match=r"NoTensor\.forward returned str 'text', not a tensor"):
        NoTensor.apply(cr.tensor(X))
    with pytest.raises(DtypeError, match="save_for_backward keeps tensors, not int 3"):
        SavesNumber.apply(cr.tensor(X))


def test_a_call_is_forgotten_with_its_graph() -> None:
    Sigmoid.apply(cr.tensor(X, requires_grad=True))
    gc.collect()
    assert not [o for o in gc.get_objects() if type(o) is Context]


def test_a_backward_that_leaves_the_graph_is_right_once_and_refused_twice() -> None:
    class Leaves(cr.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return cr.tensor(np.exp(a.numpy()))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            return cr.tensor(g.detach().numpy() * np.exp(a.detach().numpy()))

    def f(x: Any) -> Any:
        return cr.sum(Leaves.apply(x))

    np.testing.assert_allclose(cr.grad(f)(X).numpy(), np.exp(X), rtol=1e-12)
    for derive in (cr.hessian(f), lambda x: cr.jvp(f, (x,), (x,))):
        with pytest.raises(GradientError, match=r"takes off the graph by detach\(\)"):
            derive(X)
