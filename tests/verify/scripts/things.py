"""Things to be verified by name: `chainrule verify things.py:Name`."""

import numpy as np

import chainrule as cr


def squares(x, w):
    return cr.sum((x @ w) ** 2)


class Sigmoid(cr.Function):
    @staticmethod
    def forward(ctx, x):
        y = cr.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y * (1 + y)


class Linear:
    def __init__(self):
        self.W = np.random.default_rng(0).normal(size=(4, 3))
        self.dW = np.zeros_like(self.W)

    def forward(self, x):
        self.x = x
        return x @ self.W

    def backward(self, g):
        self.dW = self.x.T @ g
        return g @ self.W.T


number = 3
