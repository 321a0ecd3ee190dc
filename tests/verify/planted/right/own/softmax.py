"""Softmax."""

import chainrule as cr


class Softmax(cr.Function):
    @staticmethod
    def forward(ctx, x):
        e = cr.exp(x - cr.max(x, axis=-1, keepdims=True))
        y = e / cr.sum(e, axis=-1, keepdims=True)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        s = cr.sum(g * y, axis=-1, keepdims=True)
        return y * (g - s)
