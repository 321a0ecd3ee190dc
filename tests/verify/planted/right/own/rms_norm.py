"""Root-mean-square normalization."""

import chainrule as cr


class RMS(cr.Function):
    @staticmethod
    def forward(ctx, x, w):
        r = 1 / cr.sqrt(cr.mean(x**2, axis=-1, keepdims=True) + 1e-6)
        ctx.save_for_backward(x, w, r)
        return x * r * w

    @staticmethod
    def backward(ctx, g):
        x, w, r = ctx.saved_tensors
        gw = g * w
        x_bar = gw * r - x * r**3 * cr.mean(gw * x, axis=-1, keepdims=True)
        w_bar = cr.sum(g * x * r, axis=0)
        return x_bar, w_bar
