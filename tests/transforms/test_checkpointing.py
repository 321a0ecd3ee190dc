"""Checkpoints: the same gradients, bit for bit, from less; and an error where they would not be."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from bench.checkpointing import kept_bytes
from chainrule import nn, optim
from chainrule.amp import autocast
from chainrule.random import default_generator
from chainrule.transforms.checkpointing import checkpoint, keep_products

Wrap = Callable[..., Any]


def products(f: Any) -> Any:
    return checkpoint(f, policy=keep_products)


def sines(f: Any) -> Any:
    return checkpoint(f, policy=lambda op: op.name in ("sin", "add"))


def nested(f: Any) -> Any:
    return checkpoint(lambda *xs: checkpoint(f)(*xs))


def twice_kept(f: Any) -> Any:
    return products(lambda *xs: products(f)(*xs))


WRAPS = [checkpoint, products, sines, nested, twice_kept]


def run(f: Wrap, block: nn.Module, x: Any) -> list[Any]:
    """Value, gradients of x and of the parameters, and where the random numbers are afterwards."""
    cr.manual_seed(5)
    block.zero_grad()
    x.grad = None
    y = f(x)
    (y * y).sum().backward()
    grads = [p.grad.numpy() for p in block.parameters()]
    return [y.detach().numpy(), x.grad.numpy(), *grads, default_generator.uniform((2,)).numpy()]


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_block_with_dropout_has_the_same_gradients_bit_for_bit(wrap: Wrap):
    block = nn.Block(16, 2, dropout=0.3, generator=None)
    x = cr.Generator(1).normal((2, 5, 16)).requires_grad_()
    plain, ours = run(block, block, x), run(wrap(block), block, x)
    assert len(plain) == len(ours) == 3 + 12
    for a, b in zip(plain, ours, strict=True):
        assert a.dtype == b.dtype and np.array_equal(a, b)


def test_twelve_blocks_keep_a_fraction_and_give_the_same_gradients():
    generator = cr.Generator(0)
    blocks = [nn.Block(32, 4, generator=generator) for _ in range(12)]
    x = generator.normal((2, 16, 32))
    parameters = [p for b in blocks for p in b.parameters()]

    def forward(parts: Any) -> Any:
        y = x
        for part in parts:
            y = part(y)
        return (y * y).mean()

    results: list[Any] = []
    sizes: list[int] = []
    for parts in (blocks, [checkpoint(b) for b in blocks], [products(b) for b in blocks]):
        loss = forward(parts)
        sizes.append(kept_bytes(loss, parameters))
        for p in parameters:
            p.grad = None
        loss.backward()
        results.append([p.grad.numpy() for p in parameters])
    assert sizes[1] <= 0.1 * sizes[0]
    assert sizes[1] < sizes[2] < 0.8 * sizes[0]
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


# --- What it reaches by itself, and what it is given ----------------------------------------------


@pytest.mark.parametrize("wrap", WRAPS)
def test_an_argument_that_is_also_reached_by_itself_and_one_made_of_the_other(wrap: Wrap):
    def gradient(wrap: Wrap) -> list[float]:
        w = cr.tensor([1.0, 2.0], requires_grad=True)
        v = w * 3
        wrap(lambda t, u: (t * w * v + u * t).sum())(w, v).backward()
        return w.grad.tolist()

    # 3w^3 + 3w^2: 9w^2 + 6w
    assert gradient(lambda f: f) == gradient(wrap) == [15.0, 48.0]


def test_trees_in_and_out_keywords_and_results_without_gradient():
    @checkpoint
    def f(pair: Any, *, scale: float) -> Any:
        a, b = pair["a"], pair["b"]
        return {"y": a * b * scale, "z": a.sum(), "index": b > 0, "text": "t", "a": b}

    a = cr.tensor([1.0, 2.0], requires_grad=True)
    b = cr.tensor([3.0, -4.0])
    out = f({"a": a, "b": b}, scale=0.5)
    assert out["y"].tolist() == [1.5, -4.0] and out["text"] == "t"
    assert out["index"].tolist() == [True, False] and not out["index"].requires_grad
    assert out["a"] is b
    (out["y"].sum() + 10 * out["z"]).backward()
    assert a.grad.tolist() == [11.5, 8.0]
    assert f.__name__ == "f"


def test_one_of_several_results_alone():
    x = cr.tensor([2.0, 3.0], requires_grad=True)
    y, z = checkpoint(lambda t: (t * t, t * 5))(x)
    z.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert y.requires_grad


def test_one_value_twice_in_the_result():
    x = cr.tensor([2.0, 3.0], requires_grad=True)
    y, z = checkpoint(lambda t: [t * 2] * 2)(x)
    (y + 3 * z).sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_without_anything_to_differentiate_it_is_the_function():
    f = checkpoint(lambda x: x * 2)
    assert not f(cr.tensor([1.0])).requires_grad
    with cr.no_grad():
        assert not f(cr.tensor([1.0], requires_grad=True)).requires_grad


def test_hooks_inside_run_once_in_the_backward_pass():
    seen: list[list[float]] = []

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: seen.append(g.tolist()))
        return y * 3

    x = cr.tensor([1.0], requires_grad=True)
    w = cr.tensor([1.0], requires_grad=True)
    w.register_hook(lambda g: g * 10)
    checkpoint(lambda t: f(t) * w)(x).sum().backward()
    assert seen == [[3.0]]
    assert w.grad.tolist() == [60.0]


def everything(f: Any) -> Any:
    return checkpoint(f, policy=lambda op: True)


@pytest.mark.parametrize("wrap", [*WRAPS, everything])
def test_a_cotangent_of_zero_stays_zero_where_the_slope_is_infinite(wrap: Wrap):
    x = cr.tensor([0.0, 4.0], requires_grad=True)
    wrap(lambda t: cr.where(t > 0, cr.sqrt(t) * 3, 0))(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.75]


def test_kept_values_of_an_op_with_several_outputs():
    a = cr.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=np.float64, requires_grad=True)
    grads: list[Any] = []
    for wrap in (lambda f: f, everything):
        a.grad = None
        values, vectors = wrap(lambda m: cr.linalg.eigh(m))(a)
        (values * cr.tensor([1.0, 2.0]) + vectors[0] ** 2).sum().backward()
        grads.append(a.grad.numpy())
    assert np.array_equal(*grads)


def test_complex_numbers():
    z = cr.tensor([1 + 2j, -0.5 + 1j], requires_grad=True)

    def f(z: Any) -> Any:
        return z * z * (0.5 - 1j)

    grads: list[Any] = []
    for g in (f, checkpoint(f)):
        z.grad = None
        cr.abs(g(z)).sum().backward()
        grads.append(z.grad.numpy())
    assert np.array_equal(*grads)
    assert np.iscomplex(grads[0]).all()


# --- Other derivatives ---------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", WRAPS)
def test_forward_mode_second_order_and_batches(wrap: Wrap):
    w = cr.tensor([1.5, -2.0], dtype=np.float64, requires_grad=True)
    x = cr.tensor([0.3, 0.7], dtype=np.float64)

    def plain(t: Any) -> Any:
        return (cr.sin(t) * t * w + t @ w).sum()

    ours = wrap(plain)
    for of in (
        lambda f: cr.jvp(f, (x,), (w.detach(),))[1],
        lambda f: cr.hessian(f)(x),
        lambda f: cr.hvp(f, (x,), (w.detach(),))[0],
        lambda f: cr.vmap(cr.grad(f))(cr.stack([x, 2 * x])),
        lambda f: cr.grad(lambda t: cr.grad(f)(t).sum())(x),
    ):
        assert np.array_equal(of(plain).detach().numpy(), of(ours).detach().numpy())


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_gradient_penalty_reaches_the_parameters(wrap: Wrap):
    def penalty(wrap: Wrap) -> list[Any]:
        w = cr.tensor([1.0, 2.0], requires_grad=True)
        x = cr.tensor([0.3, 0.7], requires_grad=True)
        wrap(lambda t: (cr.sin(t) * t * w).sum())(x).backward(create_graph=True)
        w.grad = None
        (x.grad * x.grad).sum().backward()
        return w.grad.tolist()

    assert penalty(wrap) == penalty(lambda f: f)


def test_vmap_inside_and_outside():
    x = cr.Generator(3).normal((4, 3)).requires_grad_()
    f = lambda row: (row * row).sum().exp()
    expected = cr.vmap(cr.grad(f))(x.detach())
    checkpoint(cr.vmap(f))(x).sum().backward()
    assert np.array_equal(x.grad.numpy(), expected.numpy())
    assert np.array_equal(cr.vmap(cr.grad(checkpoint(f)))(x.detach()).numpy(), expected.numpy())


# --- Randomness ----------------------------------------------------------------------------------

OWN = cr.Generator(7)
SOURCES: dict[str, Callable[[], float]] = {
    "default generator": lambda: default_generator.uniform().item(),
    "a generator": lambda: OWN.uniform().item(),
    "Python's random": random.random,
    "NumPy's global functions": np.random.rand,
    "seeded inside": lambda: cr.manual_seed(3).uniform().item(),
}


@pytest.mark.parametrize("source", SOURCES)
def test_randomness_is_replayed_and_goes_on_as_if_it_had_not_been(source: str):
    draw = SOURCES[source]
    x = cr.tensor([1.0, 2.0], requires_grad=True)

    def go(wrap: Wrap) -> list[Any]:
        cr.manual_seed(1)
        OWN.manual_seed(2)
        random.seed(3)
        np.random.seed(4)
        x.grad = None
        y = wrap(lambda t: t * draw())(x)
        between = draw()
        y.sum().backward()
        return [y.tolist(), between, x.grad.tolist(), draw()]

    plain = go(lambda f: f)
    assert plain == go(checkpoint) == go(nested)
    assert plain[2] == pytest.approx([plain[0][0]] * 2)


def test_a_run_is_reproduced_exactly_by_its_seed():
    def losses() -> list[float]:
        cr.manual_seed(11)
        block = nn.Block(8, 2, dropout=0.2)
        x = default_generator.normal((3, 4, 8))
        sgd = optim.SGD(block.parameters(), lr=0.1)
        out: list[float] = []
        for _ in range(4):
            sgd.zero_grad()
            loss = (checkpoint(block)(x) ** 2).mean()
            loss.backward()
            sgd.step()
            out.append(loss.item())
        return out

    first = losses()
    assert first == losses()
    assert len(set(first)) == 4


# --- What is refused -----------------------------------------------------------------------------


def fails(f: Wrap, *args: Any, policy: Any = None) -> str:
    y = checkpoint(f, policy=policy)(*args)
    with pytest.raises(cr.GradientError) as caught:
        y.sum().backward()
    return str(caught.value)


def test_another_source_of_randomness_is_noticed():
    rng = np.random.default_rng(0)
    x = cr.tensor([1.0, 2.0], requires_grad=True)

    def noisy(t: Any) -> Any:
        return t * rng.random()

    text = fails(noisy, x)
    assert (
        "checkpoint(" in text and "noisy), called at" in text and "test_checkpointing.py:" in text
    )
    assert "leaf 0 of its result, float32[2], has other values at 2 of 2 places, by up to" in text
    assert x.grad is None


@pytest.mark.parametrize(
    ("second", "what"),
    [
        (lambda t: t.astype(np.float16), "was float32[2] and is now float16[2]"),
        (lambda t: cr.concat([t, t]), "was float32[2] and is now float32[4]"),
        (lambda t: 3, "was float32[2] and is now int 3"),
        (lambda t: t + 1e-6 * cr.tensor([0.0, 1.0]), "has other values at 1 of 2 places"),
        (lambda t: -0.0 * t, "has other values at 2 of 2 places"),
    ],
)
def test_a_result_that_differs_says_how(second: Wrap, what: str):
    calls: list[int] = []

    def f(t: Any) -> Any:
        calls.append(0)
        return second(t * 1) if len(calls) > 1 else t * 1

    assert what in fails(f, cr.tensor([1.0, 2.0], requires_grad=True))


def test_signed_zeros_and_nan_are_compared_as_bits():
    x = cr.tensor([1.0, np.nan], requires_grad=True)
    checkpoint(lambda t: t * 2)(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    signs = iter([0.0, -0.0])
    assert "other values" in fails(lambda t: t * next(signs), cr.tensor([1.0], requires_grad=True))


def test_a_parameter_that_changed_or_was_exchanged_is_noticed():
    layer = nn.Linear(2, 2)
    x = cr.ones((1, 2))
    y = checkpoint(layer)(x)
    layer.weight.data = layer.weight.data * 2
    with pytest.raises(cr.GradientError, match="has other values"):
        y.sum().backward()
    y = checkpoint(layer)(x)
    layer.weight = cr.tensor(layer.weight.data, requires_grad=True)
    with pytest.raises(cr.GradientError, match="reached other parameters or tensors"):
        y.sum().backward()


def test_another_path_is_noticed_where_values_are_kept():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    ops = iter([cr.sin, cr.cos])
    text = fails(lambda t: next(ops)(t) * t, x, policy=lambda op: op.name in ("sin", "cos"))
    assert "took another path: 'cos' where the first run had sin" in text


def test_a_second_backward_is_refused_as_everywhere():
    x = cr.tensor([1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda t: t * t)(x)
    y.backward(cr.ones((2,)))
    with pytest.raises(cr.GradientError, match="a second time"):
        y.backward(cr.ones((2,)))
    y = checkpoint(lambda t: t * t)(x)
    x.grad = None
    y.backward(cr.ones((2,)), retain_graph=True)
    y.backward(cr.ones((2,)))
    assert x.grad.tolist() == [4.0, 8.0]


# --- As a module ---------------------------------------------------------------------------------


def test_a_module_that_is_a_checkpoint_can_be_copied_and_trained():
    inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    module = nn.Checkpoint(inner, policy=keep_products)
    assert next(n for n, _ in module.named_parameters()) == "inner.0.weight"
    twin = copy.deepcopy(module)
    x = cr.Generator(0).normal((5, 3))
    for m in (module, inner, twin):
        m.zero_grad()
        m(x).sum().backward()
    ours = [p.grad.tolist() for p in twin.parameters()]
    assert ours == [p.grad.tolist() for p in inner.parameters()]
    assert twin.inner[0].weight is not inner[0].weight


def test_autocast_holds_again_when_it_is_computed_again():
    layer = nn.Linear(8, 8)
    x = cr.Generator(2).normal((4, 8))
    results: list[Any] = []
    for f in (layer, checkpoint(layer), products(layer)):
        layer.zero_grad()
        with autocast():
            y = f(x)
        y.sum().backward()  # outside
        results.append(layer.weight.grad.numpy())
    assert all(np.array_equal(results[0], r) for r in results[1:])
