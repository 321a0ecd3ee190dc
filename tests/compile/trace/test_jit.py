"""`jit` of functions: arguments, results, what is traced and what is not, operators in and out."""

from __future__ import annotations

import gc
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.runtime.call.retracing import RetraceWarning
from chainrule.tree import flatten
from tests.compile.trace.backends import backend as backend


def numbers(*shape: int, seed: int = 0) -> cr.Tensor:
    return cr.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def assert_same(a: Any, b: Any, *, exact: bool = False) -> None:
    """Two results have the same structure, kinds of leaves, dtypes, and values to rounding.

    Elements of one array are sums of numbers of one size: they are rounded as the largest is.
    """
    (xs, left), (ys, right) = flatten(a), flatten(b)
    assert left == right
    for x, y in zip(xs, ys, strict=True):
        assert type(x) is type(y)
        if not isinstance(x, cr.Tensor):
            assert x == y
            continue
        assert x.dtype == y.dtype
        p, q = x.detach().numpy(), y.detach().numpy()
        if exact:
            np.testing.assert_array_equal(p, q)
        else:
            largest = np.max(np.abs(q), initial=1.0, where=np.isfinite(q))
            np.testing.assert_allclose(p, q, rtol=2e-5, atol=2e-6 * largest)


class Pair(NamedTuple):
    a: Any
    b: Any


class Square(cr.Function):
    """x * x, with a backward that keeps an argument and a value in between."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x, x.exp())
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, e = ctx.saved_tensors
        return 2 * x * g + 0 * e


def assigned(x: Any) -> Any:
    y = cr.zeros((3, 4))
    y[1] = x[0]
    y[0, 0] = 5.0
    return y


W = cr.tensor(np.arange(8, dtype=np.float32).reshape(4, 2) / 8, requires_grad=True)

FUNCTIONS: dict[str, Any] = {
    "arithmetic": lambda x: (x * 2 + 1) / (x * x + 3.0),
    "grad": lambda x: cr.grad(lambda v: (v * v * v).sum())(x),
    "grad of grad": lambda x: cr.grad(lambda v: cr.grad(lambda u: (u**4).sum())(v).sum())(x),
    "vjp": lambda x: cr.vjp(cr.tanh, x)[1](x),
    "jvp": lambda x: cr.jvp(cr.tanh, (x,), (x,)),
    "hvp": lambda x: cr.hvp(lambda v: (v**3).sum(), (x,), (x,)),
    "jacobian": lambda x: cr.jacobian(lambda v: cr.softmax(v))(x[0]),
    "hessian": lambda x: cr.hessian(lambda v: (v**3).sum())(x[0]),
    "vmap": lambda x: cr.vmap(lambda r: (r * r).sum())(x),
    "vmap of grad": lambda x: cr.vmap(cr.grad(lambda r: (r @ W).sum() * r.sum()))(x),
    "vmap and state": lambda x: cr.vmap(lambda r: r @ W)(x).detach(),
    "checkpoint": lambda x: cr.grad(cr.checkpoint(lambda v: (v.exp() * v).sum()))(x),
    "known numbers": lambda x: cr.where(cr.arange(4) > int(cr.arange(3).max()) - 1, x, 0),
    "trees": lambda x: {"a": (x * 2, 3, "s"), "b": [Pair(x, None)]},
    "sorting": lambda x: (cr.sort(x), cr.argsort(x), *cr.topk(x, 2)),
    "NumPy": lambda x: np.sin(x) + np.concatenate([x, x])[:3],
    "assignment": assigned,
    "products": lambda x: (cr.einsum("ij,kj->ik", x, x), x @ x.mT),
    "a Function": lambda x: (Square.apply(x).detach(), cr.grad(lambda v: Square.apply(v).sum())(x)),
    "a jitted function": lambda x: cr.jit(lambda v: v * 2)(x) + 1,
    "backward": lambda x: _grad_by_backward(x),
}


def _grad_by_backward(x: Any) -> Any:
    v = cr.tensor(2.0, requires_grad=True)
    (x * v * v).sum().backward()
    return v.grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_gives_what_it_gives_uncompiled(name: str):
    f = FUNCTIONS[name]
    compiled = cr.jit(f)
    for seed in (1, 2):
        x = numbers(3, 4, seed=seed)
        assert_same(compiled(x), f(x))
    assert compiled.traces == 1


@pytest.mark.parametrize("name", ["grad", "hvp", "hessian", "jvp", "jacobian", "vmap of grad"])
def test_operators_outside(name: str):
    def f(v: Any) -> Any:
        return (cr.sin(v) * v).sum()

    def of(g: Any) -> Any:
        x = numbers(4)
        operators = {
            "grad": lambda: cr.grad(g)(x),
            "hvp": lambda: cr.hvp(g, (x,), (x * 2,)),
            "hessian": lambda: cr.hessian(g)(x),
            "jvp": lambda: cr.jvp(g, (x,), (x,)),
            "jacobian": lambda: cr.jacobian(g)(x),
            "vmap of grad": lambda: cr.vmap(cr.grad(g))(numbers(3, 4)),
        }
        return operators[name]()

    assert_same(of(cr.jit(f)), of(f))


def test_shapes_dtypes_and_structures_are_traced_once_each():
    double = cr.jit(lambda t: [x * 2 for x in t])
    calls = [[numbers(3)], [numbers(4)], [numbers(3).astype(np.float64)], [numbers(3), numbers(3)]]
    for t in [*calls, *calls]:
        assert_same(double(t), [x * 2 for x in t])
    assert double.traces == 4


def test_integers_and_strings_are_static_and_floats_are_not():
    def f(x: Any, power: int, how: str, scale: float) -> Any:
        return (x**power if how == "up" else x) * scale

    compiled = cr.jit(f)
    x = numbers(3)
    cases: list[tuple[int, str, float]] = [
        (2, "up", 0.5), (2, "up", 0.25), (3, "up", 0.5), (3, "no", 2.0), (3, "no", 1e30)
    ]  # fmt: skip
    for power, how, scale in cases:
        assert_same(compiled(x, power, how, scale), f(x, power, how, scale))
    assert compiled.traces == 3
    assert compiled(x, 2, "up", 1) is not None
    assert compiled.traces == 4, "1 and 1.0 are not the same"


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
def test_a_python_float_promotes_as_python_floats_do(dtype: Any):
    def f(x: Any, s: float) -> Any:
        return x * s, s * 2 + x, x**s, cr.where(x == x, s, x), (s + 1) * (s - 1) * x

    x = cr.tensor(np.array([1, 2, 3]), dtype)
    compiled = cr.jit(f)
    for s in (0.5, 3.0):
        for y, wanted in zip(compiled(x, s), f(x, s), strict=True):
            assert y.dtype == wanted.dtype
            np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-3)
    assert compiled.traces == 1


def test_a_python_float_comes_back_as_one_and_becomes_float32_as_a_tensor():
    def f(s: float) -> Any:
        return s * 3, cr.asarray(s), cr.tensor(s) + 1, cr.asarray(s, np.float64)

    assert_same(cr.jit(f)(0.1), f(0.1))


def test_truth_of_a_python_float_chooses_a_trace():
    compiled = cr.jit(lambda x, p: x * p if p else x)
    x = numbers(3)
    for p in (0.5, 0.0, 0.25, 0.0):
        assert_same(compiled(x, p), x * p if p else x)
    assert compiled.traces == 2


def test_static_values_that_are_equal_and_of_other_classes_are_others():
    f = cr.jit(lambda x, n: x * 2 if n is True else x * 3, static_argnums=1)
    x = cr.tensor([1.0, 5.0])
    found = [f(x, n).tolist() for n in (True, 1, 1.0, True)]
    assert found == [[2.0, 10.0], [3.0, 15.0], [3.0, 15.0], [2.0, 10.0]]
    assert f.traces == 3


def test_static_arguments_by_place_and_by_name():
    def f(x: Any, n: Any, *, flag: Any = False) -> Any:
        return x * (n[0] if flag else 1)

    compiled = cr.jit(f, static_argnums=1, static_argnames="flag")
    x = numbers(3)
    assert_same(compiled(x, (3, 4), flag=True), x * 3)
    assert_same(compiled(x, (5, 4), flag=True), x * 5)
    assert_same(compiled(x, n=(5, 4)), x)
    assert_same(compiled(x, (5, 4)), x)
    with pytest.raises(
        cr.ConfigError, match="static_argnames has 'k'; the arguments are x, n, flag"
    ):
        cr.jit(f, static_argnames="k")


def test_numpy_arrays_are_traced():
    compiled = cr.jit(lambda a, n: cr.exp(a * 2.0) + n)
    for a in (np.ones(3, np.float32), np.zeros(3, np.float32)):
        y = compiled(a, np.float64(2))
        assert y.dtype == np.float64
        np.testing.assert_allclose(y.numpy(), np.exp(a * 2.0) + 2, rtol=1e-6)
    assert compiled.traces == 1


def test_arguments_that_are_not_contiguous():
    compiled = cr.jit(lambda x: x * 2)
    x = numbers(3, 4)
    assert_same(compiled(x.mT[1:]), x.mT[1:] * 2)
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert_same(compiled(a[:, ::2].T), cr.tensor(a[:, ::2].T * 2))


def test_a_changing_integer_warns():
    compiled = cr.jit(lambda x, n: x * n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(7):
            compiled(numbers(2), n)
    with pytest.warns(RetraceWarning, match="compiled for 8 values of one integer argument"):
        compiled(numbers(2), 7)


def test_methods_names_and_docstrings():
    class Scaler:
        def __init__(self, k: float) -> None:
            self.k = k

        @cr.jit
        def scaled(self, x: Any) -> Any:
            """Times k."""
            return x * self.k

    two, three = Scaler(2.0), Scaler(3.0)
    x = numbers(3)
    assert_same(two.scaled(x), x * 2)
    assert_same(three.scaled(x), x * 3)
    assert Scaler.scaled.__doc__ == "Times k."
    assert Scaler.scaled.__name__ == "scaled"
    assert "Scaler.scaled: 2 traces>" in repr(Scaler.scaled)


def test_results_share_memory_with_nothing():
    @cr.jit
    def f(x: Any) -> Any:
        return x, x, x.reshape(-1), W.detach()

    x = numbers(2, 3)
    a, b, c, w = f(x)
    assert_same((a, b, c, w), (x, x, x.reshape(-1), W.detach()))
    pairs = [(a, x), (b, x), (c, x), (w, W), (a, b), (a, c)]
    assert not any(np.shares_memory(p.value, q.value) for p, q in pairs)


def test_random_numbers_are_those_of_eager_code():
    g = cr.Generator(3)

    def f(x: Any) -> Any:
        g.uniform((2,))  # drawn, but not used
        kept = cr.dropout(x, 0.5, generator=g)
        return kept + g.normal((4,)), g.permutation(5), g.integers(0, 9, (2, 2))

    x = numbers(3, 4)
    wanted = [f(x) for _ in range(3)]
    state = g.state
    g.manual_seed(3)
    compiled = cr.jit(f)
    got = [compiled(x) for _ in range(3)]
    assert_same(got, wanted, exact=True)
    assert g.state == state


def test_autocast_around_and_inside():
    x = numbers(3, 3)
    inside = cr.jit(lambda v: _half(v))
    assert inside(x).dtype == np.float16
    plain = cr.jit(lambda v: v @ v)
    with cr.autocast():
        assert plain(x).dtype == np.float16
    assert plain(x).dtype == np.float32
    assert plain.traces == 2


def _half(x: Any) -> Any:
    with cr.autocast():
        return x @ x


def test_recursion_and_nesting_inline():
    @cr.jit
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else power(x, n - 1) * x

    x = numbers(3)
    assert_same(power(x, 3), x * x * x * x)
    assert power.traces == 1


def test_watches_see_every_op_of_a_compiled_function():
    compiled = cr.jit(lambda x: cr.log(x) * 0)
    compiled(cr.tensor([1.0]))
    with cr.trap_nan(), pytest.raises(FloatingPointError):
        compiled(cr.tensor([-1.0]))


@pytest.mark.parametrize("collects", [True, False])
def test_the_collector_waits_only_while_something_is_compiled(collects: bool):
    seen: list[bool] = []

    def f(x: Any, fails: Any) -> Any:
        seen.append(gc.isenabled())
        if fails:
            raise ValueError("no")
        return x + 1

    compiled, x = cr.jit(f), numbers(3)
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        compiled(x, False)
        after = [gc.isenabled()]
        with pytest.raises(ValueError, match="no"):
            compiled(x, True)
        after.append(gc.isenabled())
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False, False] and after == [collects, collects]
