"""Gradient descent without an optimizer, on tensors of ours."""

import numpy as np

import chainrule as cr

rng = np.random.default_rng(0)
x = cr.tensor(rng.normal(size=(32, 3)))
t = cr.tensor(rng.normal(size=(32, 1)))
W1 = cr.tensor(rng.normal(size=(3, 8)) / 2, requires_grad=True)
W2 = cr.tensor(rng.normal(size=(8, 1)) / 3, requires_grad=True)


class Swish(cr.Function):
    @staticmethod
    def forward(ctx, a):
        s = cr.sigmoid(a)
        ctx.save_for_backward(a, s)
        return a * s

    @staticmethod
    def backward(ctx, g):
        a, s = ctx.saved_tensors
        return g * (s + a * s * (1 - s))


optimizer = cr.optim.SGD([W1, W2], lr=0.1)
for _ in range(5):
    loss = cr.mean((Swish.apply(x @ W1) @ W2 - t) ** 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
