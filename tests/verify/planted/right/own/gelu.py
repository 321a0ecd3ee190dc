"""GELU by the error function."""

import math

import chainrule as cr


class Gelu(cr.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 0.5 * x * (1 + cr.erf(x / math.sqrt(2)))

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        phi = 0.5 * (1 + cr.erf(x / math.sqrt(2)))
        slope = cr.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        return g * (phi + x * slope)
