"""Feature-wise scale, row-wise shift."""

import chainrule as cr


class Modulate(cr.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        return x * scale + shift

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        scale_bar = cr.sum(x * g, axis=0)
        shift_bar = cr.sum(g, axis=1, keepdims=True)
        return g * scale, scale_bar, shift_bar
