"""Ops of your own: say `forward` and `backward`, and the engine does the rest, also twice.

A sigmoid that saves its output, and attention that saves its weights. A backward is right if it
agrees with finite differences in any direction: <g, J t> from the outside is <backward(g), t>.
Shapes: q, k, v, y, g (B, T, d); weights w (B, T, T).
"""

import numpy as np

import chainrule as cr


class Sigmoid(cr.Function):
    @staticmethod
    def forward(ctx, x):
        y = 1 / (1 + cr.exp(-x))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 - y)


class Attention(cr.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        w = cr.softmax(q @ cr.matrix_transpose(k) / q.shape[-1] ** 0.5)
        ctx.save_for_backward(q, k, v, w)
        return w @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, w = ctx.saved_tensors
        w_bar = g @ cr.matrix_transpose(v)
        s_bar = w * (w_bar - (w_bar * w).sum(axis=-1, keepdims=True)) / q.shape[-1] ** 0.5
        return s_bar @ k, cr.matrix_transpose(s_bar) @ q, cr.matrix_transpose(w) @ g


def worst(f, *xs, h=1e-6) -> float:
    """How far <g, J t> by central differences is from <backward(g), t>, in each argument."""
    y, pull = cr.vjp(f, *xs)
    g, off = rng.normal(size=y.shape), []
    for i, x_bar in enumerate(pull(g)):
        t = rng.normal(size=xs[i].shape)
        ends = [f(*xs[:i], cr.tensor(xs[i] + s * h * t), *xs[i + 1 :]).numpy() for s in (1, -1)]
        outside, inside = (g * (ends[0] - ends[1]) / (2 * h)).sum(), (x_bar.numpy() * t).sum()
        off.append(abs(outside - inside) / max(1, abs(inside)))
    return max(off)


rng = np.random.default_rng(2)
for function, xs in (
    (Sigmoid, [rng.normal(size=(3, 4))]),
    (Attention, list(rng.normal(size=(3, 2, 5, 4)))),
):
    off = worst(function.apply, *xs)
    print(f"{function.__name__}: differs from finite differences by {off:.1e}")
    assert off < 1e-8

second = cr.grad(cr.grad(Sigmoid.apply))(np.float64(0.4)).item()
s = 1 / (1 + np.exp(-0.4))
print(f"the second derivative of Sigmoid comes for free: {second:.6f}")
assert abs(second - s * (1 - s) * (1 - 2 * s)) < 1e-15
