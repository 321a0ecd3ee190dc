"""The logistic function."""

import chainrule as cr


class Sigmoid(cr.Function):
    @staticmethod
    def forward(ctx, x):
        s = 1 / (1 + cr.exp(-x))
        ctx.save_for_backward(s)
        return s

    @staticmethod
    def backward(ctx, g):
        (s,) = ctx.saved_tensors
        ds = s * (1 - s)
        return g * ds
