"""vmap: the same as a loop over the examples, for every family, nested with every operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ShapeError, TraceError
from chainrule.nn import functional

RNG = np.random.default_rng(7)
X = RNG.normal(size=(5, 3, 4))
Y = RNG.normal(size=(5, 4))
ROWS = np.array([[2, 0], [1, 1], [0, 2], [2, 2], [1, 0]])
ALONG = RNG.integers(0, 3, size=(5, 2, 4))

ONE: dict[str, Any] = {
    "elementwise": lambda x, y: cr.sin(x) * y + 2.0,
    "shared array": lambda x, y: x * np.arange(4.0) + cr.asarray(np.ones((2, 1, 1))),
    "where": lambda x, y: cr.where(y > 0, x, y),
    "reshape": lambda x, y: cr.reshape(x, (2, 6)),
    "permute": lambda x, y: cr.permute_dims(x, (1, 0)),
    "slices": lambda x, y: x[..., 1:] + x[1, :3],
    "pad": lambda x, y: cr.pad(x, [(1, 0), (0, 2)], 3.0),
    "roll, flip, tile": lambda x, y: cr.tile(cr.flip(cr.roll(x, 2, axis=1)), (2, 1)),
    "concat": lambda x, y: cr.concat([x, cr.expand_dims(y, 0), np.ones((2, 4))]),
    "broadcast": lambda x, y: cr.broadcast_to(y, (2, 3, 4)),
    "sum": lambda x, y: cr.sum(x, axis=0) + cr.mean(y),
    "max": lambda x, y: cr.max(x, axis=1, keepdims=True) - cr.min(x),
    "logsumexp, norm": lambda x, y: cr.logsumexp(x, axis=0) * cr.norm(x, axis=1, keepdims=True),
    "prod, var": lambda x, y: cr.prod(x, axis=0) + cr.var(x, axis=0, correction=1),
    "argmax": lambda x, y: cr.argmax(x, axis=1),
    "matmul": lambda x, y: x @ cr.permute_dims(x, (1, 0)) @ np.ones((3, 2)),
    "matmul of vectors": lambda x, y: x @ y,
    "einsum": lambda x, y: cr.einsum("ij,j,kj->ki", x, y, np.arange(8.0).reshape(2, 4)),
    "take": lambda x, y: cr.take(x, np.array([2, -1, 0]), axis=1),
    "index array": lambda x, y: x[np.array([0, 2]), 1:],
    "softmax": lambda x, y: cr.softmax(x) + cr.log_softmax(x, axis=0),
    "layer_norm": lambda x, y: cr.layer_norm(x, y, y),
    "attention": lambda x, y: cr.scaled_dot_product_attention(x, x, x, causal=True),
    "dtype": lambda x, y: x.astype(np.float32) * 2,
    "detach": lambda x, y: x.detach() * x,
    "constant": lambda x, y: np.ones(3),
}


def loop(f: Any, *args: Any) -> Any:
    return np.stack([np.asarray(f(*[cr.tensor(a[i]) for a in args])) for i in range(len(args[0]))])


@pytest.mark.parametrize("name", ONE)
def test_is_the_loop(name: str) -> None:
    got = cr.vmap(ONE[name])(X, Y)
    want = loop(ONE[name], X, Y)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("name", [n for n in ONE if n not in ("argmax", "constant")])
def test_per_example_gradients_are_the_loop(name: str) -> None:
    def scalar(x: Any, y: Any) -> Any:
        return cr.sum(cr.sin(ONE[name](x, y)) ** 2)

    got = cr.vmap(cr.grad(scalar, (0, 1)))(X, Y)
    for k in (0, 1):
        want = loop(lambda x, y, k=k: cr.grad(scalar, (0, 1))(x, y)[k], X, Y)
        np.testing.assert_allclose(got[k].numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, i: cr.take(x, i, axis=0), (X, ROWS)),
        (lambda x, i: cr.take(x, i, axis=1), (X, ROWS)),
        (lambda x, i: cr.take_along_axis(x, i, axis=0), (X, ALONG)),
        (lambda x, i: cr.scatter_add(x, 0, i, cr.ones((2, 4), np.float64)), (X, ALONG)),
        (lambda x, i: x[i], (X, ROWS)),
        (lambda x, i: cr.cross_entropy(x, i), (X, RNG.integers(0, 4, size=(5, 3)))),
        (lambda x, i: cr.embedding(x, i), (X, ROWS)),
    ],
)
def test_examples_with_their_own_indices(f: Any, args: Any) -> None:
    np.testing.assert_allclose(cr.vmap(f)(*args).numpy(), loop(f, *args), rtol=1e-12)
    wrt = cr.grad(lambda x, i: cr.sum(f(x, i) ** 2))
    np.testing.assert_allclose(cr.vmap(wrt)(*args).numpy(), loop(wrt, *args), rtol=1e-12)


# --- Windows, index arrays and scatters: all examples in one call of each op ---------------------

IMAGES = RNG.normal(size=(5, 2, 4, 6, 5))
KERNELS = RNG.normal(size=(5, 6, 2, 3, 2))
OTHER = RNG.integers(-3, 3, size=(5, 2, 1))


def conv(x: Any, w: Any) -> Any:
    return functional.conv2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)


def conv_back(x: Any, w: Any) -> Any:
    return functional.conv_transpose2d(conv(x, w), w, groups=2, stride=2, output_padding=1)


TOGETHER: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "conv": (conv, (IMAGES, KERNELS)),
    "conv_transpose": (conv_back, (IMAGES, KERNELS)),
    "conv1d": (
        lambda x, w: functional.conv1d(x, w, padding=1),
        (IMAGES[:, 0], RNG.normal(size=(5, 3, 6, 2))),
    ),
    "unfold": (lambda x: functional.unfold(x, (2, 3), stride=2, padding=1), (IMAGES,)),
    "max_pool": (lambda x: functional.max_pool2d(x, 2, padding=1), (IMAGES,)),
    "avg_pool": (lambda x: functional.avg_pool2d(x, 2, stride=1), (IMAGES,)),
    "index": (lambda x, i: x[i], (X, ROWS)),
    "index behind a slice": (lambda x, i: x[:, i], (X, ROWS)),
    "index behind an ellipsis": (lambda x, i: x[..., i, None], (X, ROWS)),
    "two indices": (lambda x, i, j: x[i, None, j], (X, ROWS, OTHER)),
    "an index and a number": (lambda x, i: x[1:, 0, i, ::2], (IMAGES, ROWS)),
    "apart": (lambda x, i, j: x[0, i, :, j], (IMAGES, ROWS % 2, OTHER)),
    "adjacent": (lambda x, i, j: x[:, i, j], (IMAGES, ROWS, OTHER)),
    "index_put": (lambda x, i: cr.index_put(x, (slice(None), i), 2.0 * x[:, :1]), (X, ROWS)),
    "index_add": (lambda x, i: cr.index_add(x, 0, i, x[:2] ** 2), (X, ROWS)),
    "scatter": (lambda x, i: cr.scatter(x, 0, i, x[:2] ** 2), (X, ALONG)),
    "amax": (lambda x, i: cr.scatter_reduce(x, 0, i, x[:2] ** 2, "amax"), (X, ALONG)),
    "mean": (lambda x, i: cr.scatter_reduce(x, 0, i, x[:2] ** 2, "mean"), (X, ALONG)),
}


def one_at_a_time(*args: Any) -> Any:
    raise AssertionError("an op has no rule for examples")


@pytest.mark.parametrize("name", TOGETHER)
def test_windows_and_indices_are_done_together(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, args = TOGETHER[name]
    wrt = tuple(k for k, a in enumerate(args) if a.dtype.kind == "f")
    slope = cr.grad(lambda *a: cr.sum(cr.sin(f(*a))), wrt)
    want = [loop(f, *args)] + [loop(lambda *a, k=k: slope(*a)[k], *args) for k in wrt]
    shared = [
        np.stack(
            [
                np.asarray(
                    f(*[a[i if k == own else 0] for k, a in enumerate(map(cr.tensor, args))])
                )
                for i in range(5)
            ]
        )
        for own in range(len(args))
    ]
    monkeypatch.setattr("chainrule.ops.batching.one_by_one", one_at_a_time)
    got = [cr.vmap(f)(*args), *cr.vmap(slope)(*args)]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-12)
    for own, b in enumerate(shared):
        axes = tuple(0 if k == own else None for k in range(len(args)))
        some = [cr.tensor(a if k == own else a[0]) for k, a in enumerate(args)]
        np.testing.assert_allclose(cr.vmap(f, in_axes=axes)(*some).numpy(), b, rtol=1e-9)


@pytest.mark.parametrize("own", [0, 1])
def test_gradients_of_a_convolution_with_one_operand_of_its_own(own: int) -> None:
    def slope(x: Any, w: Any) -> Any:
        return cr.grad(lambda x, w: cr.sum(cr.sin(conv_back(x, w))), (0, 1))(x, w)

    args = [cr.tensor(a if k == own else a[0]) for k, a in enumerate((IMAGES, KERNELS))]
    axes = (0, None) if own == 0 else (None, 0)
    got = cr.vmap(slope, in_axes=axes)(*args)
    for i in range(5):
        want = slope(*[a[i] if k == own else a for k, a in enumerate(args)])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a[i].numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


def test_take_with_indices_of_its_own_from_a_shared_array() -> None:
    table = RNG.normal(size=(3, 2))
    for axis in (0, 1):
        rows = ROWS % table.shape[axis]
        got = cr.vmap(lambda i, a=axis: cr.take(cr.asarray(table), i, axis=a))(rows)
        want = np.stack([np.take(table, r, axis=axis) for r in rows])
        np.testing.assert_array_equal(got.numpy(), want)


def test_nests_in_itself() -> None:
    products = cr.vmap(lambda a: cr.vmap(lambda b: cr.sum(a * b))(Y))(Y)
    np.testing.assert_allclose(products.numpy(), Y @ Y.T, rtol=1e-12)


def test_gradient_through_it_reaches_a_shared_argument() -> None:
    w = cr.tensor(RNG.normal(size=4), requires_grad=True)
    cr.vmap(lambda y: cr.sum(cr.sin(y * w)))(Y).sum().backward()
    assert w.grad is not None
    np.testing.assert_allclose(w.grad.numpy(), (Y * np.cos(Y * w.detach().numpy())).sum(0))


def test_forward_over_it_and_in_it() -> None:
    def f(x: Any) -> Any:
        return cr.sum(cr.sin(x) * x)

    inside = cr.vmap(lambda x, t: cr.jvp(f, (x,), (t,))[1])(Y, Y)
    outside = cr.jvp(cr.vmap(f), (Y,), (Y,))[1]
    np.testing.assert_allclose(inside.numpy(), outside.numpy(), rtol=1e-12)
    assert not inside.requires_grad


def test_axes_trees_and_several_results() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": p["w"] * x, "z": p["b"]}, x

    tree = {"w": Y, "b": np.arange(4.0)}
    (out, x) = cr.vmap(f, in_axes=({"w": 0, "b": None}, 1), out_axes=(0, 1))(tree, Y.T)
    np.testing.assert_allclose(out["y"].numpy(), Y * Y)
    np.testing.assert_allclose(out["z"].numpy(), np.tile(np.arange(4.0), (5, 1)))
    np.testing.assert_allclose(x.numpy(), Y.T)


class Cube(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def test_users_functions_run_on_each_example() -> None:
    got = cr.vmap(cr.grad(lambda y: cr.sum(Cube.apply(y))))(Y)
    np.testing.assert_allclose(got.numpy(), 3 * Y * Y, rtol=1e-12)


def test_nothing_recorded_under_no_grad_stays_so() -> None:
    y = cr.tensor(Y, requires_grad=True)

    def f(v: Any) -> Any:
        with cr.no_grad():
            scale = v * 2
        return cr.sum(v * scale)

    cr.vmap(f)(y).sum().backward()
    assert y.grad is not None
    np.testing.assert_allclose(y.grad.numpy(), 2 * Y)


def test_errors_say_what_to_do() -> None:
    with pytest.raises(TraceError, match=r"bool\(\) of a value that is not known yet.*where"):
        cr.vmap(lambda y: y if cr.sum(y) > 0 else -y)(Y)
    with pytest.raises(ShapeError, match="one number of examples"):
        cr.vmap(lambda a, b: a)(X, np.ones((4, 2)))
    with pytest.raises(ShapeError, match="an argument with an axis of examples"):
        cr.vmap(lambda a: a, in_axes=None)(X)
    with pytest.raises(ShapeError, match="3 axes for 2 arguments"):
        cr.vmap(lambda a, b: a, in_axes=(0, 0, 0))(X, Y)
    with pytest.raises(ShapeError, match="cannot be None"):
        cr.vmap(lambda a: a, out_axes=None)(X)
