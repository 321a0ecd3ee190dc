"""An affine layer."""

import chainrule as cr


class Affine(cr.Function):
    @staticmethod
    def forward(ctx, x, W, b):
        ctx.save_for_backward(x, W)
        return x @ W + b

    @staticmethod
    def backward(ctx, g):
        x, W = ctx.saved_tensors
        return g @ W.T, x.T @ g, cr.sum(g, axis=0)
