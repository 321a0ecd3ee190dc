"""Mean squared error."""

import chainrule as cr


class MeanSquare(cr.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return cr.mean((a - b) ** 2)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        d = 2 * g * (a - b) / a.size
        return d, -d
