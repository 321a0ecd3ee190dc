"""Feature-wise scale, row-wise shift."""

import torch


def sum_to(grad, shape):
    while grad.dim() > len(shape):
        grad = grad.sum(0)
    axes = [i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1]
    return grad.sum(axes, keepdim=True) if axes else grad


class Modulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, shift):
        ctx.save_for_backward(x, scale)
        ctx.shapes = scale.shape, shift.shape
        return x * scale + shift

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        scale_shape, shift_shape = ctx.shapes
        return g * scale, sum_to(g * x, scale_shape), sum_to(g, shift_shape)
