"""Attention's products and what lies between them, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.compile.lower import term_passes
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)


Attend = Callable[..., Any]


def causal(q: Any, k: Any, v: Any) -> Any:
    return cr.scaled_dot_product_attention(q, k, v, causal=True)


def full(q: Any, k: Any, v: Any) -> Any:
    return cr.scaled_dot_product_attention(q, k, v)


def biased(q: Any, k: Any, v: Any) -> Any:
    """The mask as a large negative number: nothing is exactly zero."""
    scores = q @ k.mT / 8
    keep = cr.tril(cr.ones((scores.shape[-2], scores.shape[-1]), dtype="bool"))
    return cr.softmax(cr.where(keep, scores, -20.0), axis=-1) @ v


def strictly(q: Any, k: Any, v: Any) -> Any:
    """One more diagonal than causal attention sees."""
    n = q.shape[-2]
    keep = cr.tril(cr.ones((n, n), dtype="bool"), k=1)
    return cr.softmax(cr.where(keep, q @ k.mT / 8, -np.inf), axis=-1) @ v


def gradients(attend: Attend) -> Attend:
    """Of a weighted sum of what is attended to, by all three."""

    def f(q: Any, k: Any, v: Any, g: Any) -> Any:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return (attend(q, k, v) * g).sum()

        return cr.grad(loss, argnums=(0, 1, 2))(q, k, v)

    return f


def arrays(*shape: int, dtype: str = "float32", seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [cr.asarray(rng.standard_normal(shape).astype(dtype)) for _ in range(4)]


def agree(f: Callable[..., Any], *args: Any, tolerance: float = 2e-5) -> Any:
    """`f` compiled is `f`; the compiled one."""
    step = cr.jit(f)
    got, want = step(*args), f(*args)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=0, atol=tolerance)
    return step


def scratch(step: Any) -> list[str]:
    """What is said of scratch memory."""
    return [line for line in str(step.loops()).splitlines() if "] scratch" in line]


def largest(step: Any) -> int:
    """Elements of the largest piece of scratch memory."""
    shapes = [line.split("[")[1].split("]")[0] for line in scratch(step)]
    return max([int(np.prod([int(n) for n in s.split(",") if n.strip()])) for s in shapes])


@pytest.mark.parametrize("attend", [causal, full, biased, strictly])
@pytest.mark.parametrize(
    "shape", [(12, 256, 16), (3, 4, 200, 8), (2, 600, 32), (40, 130, 16)], ids=str
)
def test_gradients_are_the_same_without_a_square_in_memory(
    attend: Attend, shape: tuple[int, ...]
) -> None:
    step = agree(gradients(attend), *arrays(*shape))
    assert "_band" in str(step.loops())
    T = shape[-2]
    assert largest(step) < np.prod(shape[:-2], dtype=int) * T * T


@pytest.mark.parametrize("attend", [causal, full])
def test_values_are_the_same(attend: Attend) -> None:
    q, k, v, _ = arrays(16, 256, 16)

    def f(q: Any, k: Any, v: Any) -> Any:
        return [attend(q, k, v)]

    step = agree(f, q, k, v)
    assert "_band" in str(step.loops())


@pytest.mark.parametrize("attend", [causal, full, biased])
def test_a_value_and_its_gradients_are_one_kernel(attend: Attend) -> None:
    def f(q: Any, k: Any, v: Any, g: Any) -> Any:
        y, pull = cr.vjp(attend, q, k, v)
        return [y, *pull(g)]

    step = agree(f, *arrays(12, 192, 16))
    assert str(step.loops()).count("_band(") == 1
    assert largest(step) < 12 * 192 * 192


def test_what_is_left_out_is_said() -> None:
    step = agree(gradients(causal), *arrays(12, 256, 16))
    text = str(step.loops())
    assert "n upto 64*" in text and "k upto 64*" in text and "m upto 64*" in text
    assert " upto " not in str(agree(gradients(full), *arrays(12, 256, 16)).loops())
    assert " upto " not in str(agree(gradients(biased), *arrays(12, 256, 16)).loops())


def test_in_float64_to_the_last_digits() -> None:
    agree(gradients(causal), *arrays(12, 192, 16, dtype="float64"), tolerance=1e-13)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("row", [0, 70, 255])
def test_inf_and_nan_reach_what_they_reach_without_blocks(bad: float, place: int, row: int) -> None:
    """Also where 0 times them is left out."""
    args = [a.numpy().copy() for a in arrays(8, 256, 16)]
    args[place][1, row, 3] = bad
    given = [cr.asarray(a) for a in args]
    got, want = cr.jit(gradients(causal))(*given), gradients(causal)(*given)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.isnan(a.numpy()), np.isnan(b.numpy()))
    value = cr.jit(causal)(*given[:3])
    np.testing.assert_array_equal(np.isnan(value.numpy()), np.isnan(causal(*given[:3]).numpy()))


class Layer(nn.Module):
    """Attention of several heads, and what is around it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, T, width = x.shape
        parts = self.into(x).reshape((batch, T, 3, self.heads, width // self.heads))
        q, k, v = (parts[:, :, n].swapaxes(1, 2) for n in range(3))
        y = causal(q, k, v).swapaxes(1, 2).reshape((batch, T, width))
        return x + self.out(y)


def test_training_computes_weights_again_instead_of_keeping_them() -> None:
    cr.manual_seed(0)
    T, heads, batch = 192, 4, 3
    first, second = Layer(32, heads), Layer(32, heads)
    x = cr.asarray(np.random.default_rng(1).standard_normal((batch, T, 32)).astype(np.float32))
    parameters = [*first.parameters(), *second.parameters()]

    def step(x: Any) -> Any:
        loss = (second(first(x)) ** 2).mean()
        for p in parameters:
            p.grad = None
        loss.backward()
        return [loss.detach(), *[p.grad for p in parameters]]

    compiled = agree(step, x)
    assert str(compiled.loops()).count("_band(") == 4  # two forward, two backward
    assert largest(compiled) < batch * heads * T * T


def test_a_layer_is_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_passes, "FULL", 1)
    rng = np.random.default_rng(2)
    x, w, v = (
        cr.asarray(rng.standard_normal(shape).astype(np.float32) / 16)
        for shape in ((320, 64), (64, 256), (256, 32))
    )

    def f(x: Any, w: Any, v: Any) -> Any:
        def loss(w: Any, v: Any) -> Any:
            return ((cr.tanh(x @ w) @ v) ** 2).sum()

        return cr.grad(loss, argnums=(0, 1))(w, v)

    # two forward; a gradient for each matrix, and one for what is between them
    assert str(agree(f, x, w, v).loops()).count("# matmul ") == 5


def test_second_derivatives() -> None:
    q, k, v, g = arrays(12, 160, 8)

    def f(q: Any, k: Any, v: Any, g: Any) -> Any:
        def loss(q: Any) -> Any:
            return (causal(q, k, v) ** 2).sum()

        return cr.hvp(loss, (q,), (g,))[1:]

    agree(f, q, k, v, g, tolerance=2e-4)


def test_neighbours_of_a_causal_row_are_not_left_out() -> None:
    """What stands one column further left is not masked where its neighbour is."""
    q, k, v, g = arrays(12, 160, 16)

    def attend(q: Any, k: Any, v: Any) -> Any:
        T = q.shape[-2]
        mask = cr.tril(cr.ones((T, T), dtype="bool"))
        p = cr.softmax(cr.where(mask, q @ k.mT / 4, -np.inf), axis=-1)
        moved = cr.concat([cr.zeros_like(p[..., :1]), p[..., :-1]], axis=-1)
        return (p + moved) @ v

    agree(gradients(attend), q, k, v, g)


def test_masks_that_are_data() -> None:
    q, k, v, g = arrays(12, 160, 16)
    keep = cr.asarray(np.random.default_rng(5).random((160, 160)) > 0.5)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return cr.scaled_dot_product_attention(q, k, v, mask=keep)

    agree(gradients(attend), q, k, v, g)


def test_dropout_between_weights_and_values() -> None:
    q, k, v, g = arrays(12, 160, 8)
    keep = cr.asarray((np.random.default_rng(3).random((12, 160, 160)) > 0.3).astype(np.float32))

    def attend(q: Any, k: Any, v: Any) -> Any:
        T = q.shape[-2]
        mask = cr.tril(cr.ones((T, T), dtype="bool"))
        p = cr.softmax(cr.where(mask, q @ k.mT, -np.inf), axis=-1)
        return (p * keep) @ v

    agree(gradients(attend), q, k, v, g)


def test_weights_that_are_a_result_are_kept() -> None:
    q, k, v, _ = arrays(12, 160, 8)

    def f(q: Any, k: Any, v: Any) -> Any:
        T = q.shape[-2]
        mask = cr.tril(cr.ones((T, T), dtype="bool"))
        p = cr.softmax(cr.where(mask, q @ k.mT, -np.inf), axis=-1)
        return p @ v, p

    agree(f, q, k, v)


def test_threads_agree_to_the_bit() -> None:
    args = arrays(24, 256, 16)
    step = cr.jit(gradients(causal))
    before, found = cr.get_num_threads(), list[list[Any]]()
    try:
        for count in (1, 2):
            cr.set_num_threads(count)
            found.append([a.numpy().copy() for a in step(*args)])
    finally:
        cr.set_num_threads(before)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
