"""Derivatives inside derivatives: each is of its own argument, in every nesting and mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import chainrule as cr

X = np.array([0.7, -1.3, 0.4])


def forward(f: Any) -> Any:
    """The derivative of a function of one number, by forward mode."""
    return lambda x: cr.jvp(f, (x,), (np.float64(1.0),))[1]


MODES = {"reverse": cr.grad, "forward": forward}
modes = pytest.mark.parametrize("outer", MODES.values(), ids=MODES.keys())
inner_modes = pytest.mark.parametrize("inner", MODES.values(), ids=MODES.keys())


def number(x: Any) -> float:
    return float(np.asarray(x.detach() if isinstance(x, cr.Tensor) else x))


# --- Perturbation confusion: Siskind & Pearlmutter 2005, "Perturbation confusion and referential
# transparency"; 2008, "Nesting forward-mode AD in a functional framework"


@modes
@inner_modes
def test_inner_derivative_does_not_see_the_outer_perturbation(outer: Any, inner: Any):
    """d/dx [x d/dy (x + y)] at 1 is 1; mixing the two perturbations up gives 2."""
    assert (
        number(outer(lambda x: x * inner(lambda y: x + y)(np.float64(1.0)))(np.float64(1.0))) == 1
    )


@modes
@inner_modes
def test_outer_variable_inside_the_inner_function(outer: Any, inner: Any):
    """d/dx [x d/dy (x y)] = 2x."""
    got = outer(lambda x: x * inner(lambda y: x * y)(np.float64(2.0)))(np.float64(3.0))
    assert number(got) == 6


@modes
@inner_modes
def test_inner_argument_is_the_outer_variable(outer: Any, inner: Any):
    """d/dx [d/dy (x y**3) at y = x] = d/dx 3 x**3 = 9 x**2."""
    got = outer(lambda x: inner(lambda y: x * y**3)(x))(np.float64(2.0))
    assert number(got) == pytest.approx(36)


@modes
@inner_modes
def test_inner_function_that_ignores_its_argument(outer: Any, inner: Any):
    assert number(outer(lambda x: inner(lambda y: x * x)(x) + x)(np.float64(2.0))) == 1


@modes
@inner_modes
def test_inner_derivative_of_a_closure_made_outside(outer: Any, inner: Any):
    """A function made at one level, differentiated at another (Manzyuk et al. 2019, JFP 29)."""

    def make(x: Any) -> Any:
        return lambda f: lambda y: f(x * y)

    got = outer(lambda x: inner(make(x)(inner(cr.sin)))(np.float64(0.5)))(np.float64(0.9))
    assert number(got) == pytest.approx(-np.sin(0.45) - 0.45 * np.cos(0.45))


@pytest.mark.parametrize("order", range(6))
def test_any_order_of_a_power(order: int):
    f: Any = lambda x: x**5
    for i in range(order):
        f = (cr.grad, forward)[i % 2](f)
    want = float(np.prod([5.0 - i for i in range(order)])) * 1.5 ** (5 - order)
    assert number(f(np.float64(1.5))) == pytest.approx(want)


@pytest.mark.parametrize("bits", range(8))
def test_third_derivative_by_every_choice_of_modes(bits: int):
    f: Any = lambda x: cr.exp(cr.sin(x)) / (1 + x * x)
    g = f
    for i in range(3):
        g = (cr.grad, forward)[bits >> i & 1](g)
    reference = cr.grad(cr.grad(cr.grad(f)))
    assert number(g(np.float64(0.8))) == pytest.approx(
        number(reference(np.float64(0.8))), rel=1e-12
    )
    h = 1e-4  # the library's second derivative, differenced
    second = cr.grad(cr.grad(f))
    slope = (number(second(np.float64(0.8 + h))) - number(second(np.float64(0.8 - h)))) / (2 * h)
    assert number(g(np.float64(0.8))) == pytest.approx(slope, rel=1e-6)


# --- Matrices of derivatives ---------------------------------------------------------------------


def potential(x: Any) -> Any:
    return cr.sum(cr.sin(x) * cr.exp(cr.roll(x, 1) * 0.3)) + cr.prod(x) ** 2


def field(x: Any) -> Any:
    return cr.stack([cr.sum(x * x), cr.sin(x[0]) * x[1]]) * cr.reshape(cr.norm(x), (1,))


def test_hessian_four_ways():
    ways = [
        cr.hessian(potential),
        cr.jacobian(cr.grad(potential), mode="forward"),
        cr.jacobian(cr.grad(potential), mode="reverse"),
        cr.jacobian(cr.jacobian(potential, mode="forward"), mode="forward"),
        cr.jacobian(cr.jacobian(potential, mode="forward"), mode="reverse"),
    ]
    first = ways[0](X).numpy()
    assert np.allclose(first, first.T, rtol=1e-13, atol=1e-14) and np.abs(first).min() > 1e-3
    for way in ways[1:]:
        assert np.allclose(way(X).numpy(), first, rtol=1e-12, atol=1e-13)
    t = np.array([0.3, 1.1, -0.6])
    assert np.allclose(cr.hvp(potential, (X,), (t,))[0].numpy(), first @ t)


def test_jacobian_modes_agree_and_have_the_result_first():
    forward, reverse = (cr.jacobian(field, mode=m)(X).numpy() for m in ("forward", "reverse"))
    assert forward.shape == (2, 3) and np.allclose(forward, reverse, rtol=1e-13)
    for k in range(3):
        e = np.eye(3)[k]
        assert np.allclose(cr.jvp(field, (X,), (e,))[1].numpy(), forward[:, k])


def test_jacobian_picks_the_cheaper_mode(monkeypatch: pytest.MonkeyPatch):
    """Two parameters and 1,000 results: forward; the other way round: reverse."""
    from chainrule.transforms import functional

    passes: list[str] = []
    for name in ("pushforward_nodes", "pullback_nodes"):
        real = getattr(functional, name)

        def counted(*args: Any, real: Any = real, name: str = name, **kw: Any) -> Any:
            passes.append(name)
            return real(*args, **kw)

        monkeypatch.setattr(functional, name, counted)
    wide = np.linspace(-1, 1, 1000)
    two = np.array([0.3, -0.8])
    tall = cr.jacobian(lambda p: cr.sin(p[0] * wide) + p[1])(two)
    assert tall.shape == (1000, 2) and passes == ["pushforward_nodes"]  # both columns at once
    assert np.allclose(tall.numpy()[:, 0], wide * np.cos(0.3 * wide))
    passes.clear()
    cr.jacobian(lambda x: cr.reshape(cr.sum(x * x), (1,)))(wide)
    assert passes == ["pullback_nodes"]


def test_jacobian_of_trees_is_a_tree_of_trees():
    def f(p: dict[str, Any]) -> tuple[Any, Any]:
        return cr.matmul(p["w"], p["x"]), cr.sum(p["x"])

    args = {"w": np.array([[0.3, 0.5, 0.7], [1.1, 1.3, 1.7]]), "x": X}
    for mode in ("forward", "reverse"):
        first, second = cr.jacobian(f, mode=mode)(args)
        assert first["w"].shape == (2, 2, 3) and first["x"].shape == (2, 3)
        assert second["w"].shape == (2, 3) and second["x"].shape == (3,)
        assert np.allclose(first["x"].numpy(), args["w"])
        assert np.allclose(first["w"].numpy(), np.einsum("ij,k->ijk", np.eye(2), X))


# --- Arguments and results -----------------------------------------------------------------------


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Layer:
    weight: Any
    bias: Any


def test_gradients_have_the_structure_of_the_argument():
    tree = {"p": Pair(X, 2 * X), "layers": [Layer(X[:2], X[2]), (np.float64(0.3),)], "none": None}

    def f(t: Any) -> Any:
        layer = t["layers"][0]
        inside = cr.sum(t["p"].a * t["p"].b) + cr.sum(layer.weight) * layer.bias
        return inside * t["layers"][1][0]

    got = cr.grad(f)(tree)
    assert type(got["p"]) is Pair and type(got["layers"][0]) is Layer and got["none"] is None
    assert np.allclose(got["p"].a.numpy(), 0.6 * X)
    assert np.allclose(got["layers"][0].bias.numpy(), 0.3 * X[:2].sum())
    assert got["layers"][1][0].shape == ()


def test_argnums():
    def f(a: Any, b: Any, c: Any) -> Any:
        return cr.sum(a * a * b * c)

    one = cr.grad(f, 1)(X, 2 * X, 0.5)
    assert np.allclose(one.numpy(), X * X * 0.5)
    a, c = cr.grad(f, (0, 2))(X, 2 * X, np.float64(0.5))
    assert np.allclose(a.numpy(), 2 * X * X) and np.allclose(c.numpy(), np.sum(2 * X**3))
    assert np.allclose(cr.grad(f, -2)(X, 2 * X, 0.5).numpy(), one.numpy())


def test_has_aux_and_keyword_arguments():
    def f(x: Any, *, power: int) -> Any:
        y = x**power
        return cr.sum(y), {"y": y, "note": "kept"}

    (value, aux), bar = cr.value_and_grad(f, has_aux=True)(X, power=3)
    assert np.allclose(bar.numpy(), 3 * X**2) and value.item() == pytest.approx(np.sum(X**3))
    assert aux["note"] == "kept" and np.allclose(aux["y"].numpy(), X**3)
    bar2, aux2 = cr.grad(f, has_aux=True)(X, power=3)
    assert np.allclose(bar2.numpy(), bar.numpy()) and not aux2["y"].requires_grad


def test_an_argument_that_is_the_result_and_one_that_is_unused():
    a, b = cr.grad(lambda x, y: x, (0, 1))(np.float64(2.0), X)
    assert a.item() == 1 and np.array_equal(b.numpy(), np.zeros(3))
    assert cr.jvp(lambda x: (x, x), (X,), (X,))[1][1].numpy() is not None
    y, pull = cr.vjp(lambda x: (x, x * 2, x), X)
    assert np.allclose(pull((X, X, X))[0].numpy(), 4 * X) and len(y) == 3


def test_a_result_on_the_way_to_another():
    def f(x: Any) -> Any:
        y = cr.sin(x)
        return y, cr.exp(y)

    _, pull = cr.vjp(f, X)
    want = (1 + np.exp(np.sin(X))) * np.cos(X)
    assert np.allclose(pull((np.ones(3), np.ones(3)))[0].numpy(), want)
    assert np.allclose(pull((np.ones(3), np.ones(3)))[0].numpy(), want), (
        "a pull may be called again"
    )


def test_closing_over_a_leaf_leaves_it_alone():
    w = cr.tensor(X, requires_grad=True)
    got = cr.grad(lambda x: cr.sum(x * w))(X)
    assert w.grad is None and np.allclose(got.detach().numpy(), X)
    cr.sum(got * got).backward()  # the gradient depends on w, and says so
    assert w.grad is not None and np.allclose(w.grad.numpy(), 2 * X)


def test_no_grad_inside_and_outside():
    with cr.no_grad():
        assert cr.grad(lambda x: x * x)(np.float64(3.0)).item() == 6

    def half_hidden(x: Any) -> Any:
        with cr.no_grad():
            frozen = x * x
        return x * frozen

    assert cr.grad(half_hidden)(np.float64(3.0)).item() == 9
    assert not (cr.tensor(1.0, requires_grad=True).detach() * 2).requires_grad


def test_stop_at_detach():
    assert cr.grad(lambda x: x * x.detach())(np.float64(3.0)).item() == 3
    assert cr.grad(cr.grad(lambda x: x**2 * x.detach()))(np.float64(3.0)).item() == 6


def test_no_graph_is_left_behind():
    x = cr.tensor(X)
    assert not cr.grad(potential)(x).requires_grad
    value, dot = cr.jvp(potential, (x,), (x,))
    assert not value.requires_grad and not dot.requires_grad and not x.requires_grad


# --- Derivatives in losses, against PyTorch ------------------------------------------------------

RNG = np.random.default_rng(20)
W1, W2 = RNG.normal(size=(4, 5)), RNG.normal(size=(5, 1))
BATCH, TARGET = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 1))


def test_gradient_penalty_against_pytorch():
    """(|d out / d input| - 1)**2 in the loss (Gulrajani et al. 2017, arXiv:1704.00028, eq. 3)."""

    def penalty(w: Any) -> Any:
        def out(x: Any) -> Any:
            return cr.sum(cr.tanh(x @ w["a"]) @ w["b"])

        lengths = cr.norm(cr.grad(out)(BATCH), axis=1)
        return cr.mean((lengths - 1) ** 2) + out(cr.tensor(BATCH)) * 0.1

    got = cr.grad(penalty)({"a": W1, "b": W2})
    a, b = (torch.tensor(w, requires_grad=True) for w in (W1, W2))
    x = torch.tensor(BATCH, requires_grad=True)
    out = (torch.tanh(x @ a) @ b).sum()
    (slope,) = torch.autograd.grad(out, x, create_graph=True)
    (((slope.norm(dim=1) - 1) ** 2).mean() + out * 0.1).backward()
    for mine, theirs in ((got["a"], a), (got["b"], b)):
        assert np.allclose(mine.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-13)


def test_gradient_penalty_by_backward():
    """The same in PyTorch's words: create_graph, then backward through the gradients."""
    w, x = cr.tensor(W1, requires_grad=True), cr.tensor(BATCH, requires_grad=True)
    cr.sum(cr.tanh(x @ w)).backward(create_graph=True)
    assert x.grad is not None and x.grad.requires_grad
    loss = cr.mean(cr.square(x.grad))
    w.grad = x.grad = None
    loss.backward()

    a, b = torch.tensor(W1, requires_grad=True), torch.tensor(BATCH, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.tanh(b @ a).sum(), b, create_graph=True)
    (slope**2).mean().backward()
    for mine, theirs in ((w, a), (x, b)):
        assert np.allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-13)


def test_an_inner_step_inside_an_outer_loss_against_pytorch():
    """MAML with two inner SGD steps (Finn et al. 2017, arXiv:1703.03400, equation 1)."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return cr.mean((cr.tanh(x @ w["a"]) @ w["b"] - y) ** 2)

    def outer(w: Any) -> Any:
        for _ in range(2):
            step = cr.grad(loss)(w, BATCH[:3], TARGET[:3])
            w = cr.tree_map(lambda p, g: p - 0.1 * g, w, step)
        return loss(w, BATCH[3:], TARGET[3:])

    got = cr.grad(outer)({"a": W1, "b": W2})

    def torch_loss(a: Any, b: Any, x: Any, y: Any) -> Any:
        return ((torch.tanh(x @ a) @ b - y) ** 2).mean()

    leaves = [torch.tensor(w, requires_grad=True) for w in (W1, W2)]
    x, y = torch.tensor(BATCH), torch.tensor(TARGET)
    ws: Any = leaves
    for _ in range(2):
        slopes = torch.autograd.grad(torch_loss(*ws, x[:3], y[:3]), ws, create_graph=True)
        ws = [w - 0.1 * s for w, s in zip(ws, slopes, strict=True)]
    torch_loss(*ws, x[3:], y[3:]).backward()
    for mine, theirs in zip((got["a"], got["b"]), leaves, strict=True):
        assert np.allclose(mine.numpy(), theirs.grad.numpy(), rtol=1e-10, atol=1e-13)


def test_an_optimum_differentiated_implicitly_and_by_unrolling():
    """d/da of the minimum over x of (x - a)**2 + x**4, by unrolled gradient descent."""

    def solve(a: Any) -> Any:
        x: Any = cr.tensor(np.float64(0.5))
        for _ in range(80):
            x = x - 0.1 * cr.grad(lambda x: (x - a) ** 2 + x**4)(x)
        return x

    a = np.float64(0.8)
    x = solve(cr.tensor(a)).item()
    assert cr.grad(solve)(a).item() == pytest.approx(2 / (2 + 12 * x * x), rel=1e-9)
    assert forward(solve)(a).item() == pytest.approx(2 / (2 + 12 * x * x), rel=1e-9)


@pytest.mark.parametrize("transform", [cr.jvp, cr.hvp])
@pytest.mark.parametrize("given", [(np.ones(3), (np.ones(3),)), ((np.ones(3),), np.ones(3))])
def test_arguments_and_tangents_come_as_tuples(transform: Any, given: Any):
    """An array would pass for a tuple of its rows."""
    with pytest.raises(cr.DtypeError, match="is a tuple with an entry for each argument"):
        transform(lambda x: cr.sum(x**3), *given)
