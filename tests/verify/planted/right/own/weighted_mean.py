"""The weighted mean of rows."""

import chainrule as cr


class WeightedMean(cr.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return cr.sum(x * w, axis=0) / cr.sum(w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        n = cr.sum(w)
        y = cr.sum(x * w, axis=0) / n
        return w * g / n, cr.sum(g * (x - y), axis=1, keepdims=True) / n
