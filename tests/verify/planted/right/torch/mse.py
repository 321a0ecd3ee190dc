"""Mean squared error."""

import torch


class MSE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction, target):
        error = prediction - target
        ctx.save_for_backward(error)
        return error.pow(2).mean()

    @staticmethod
    def backward(ctx, g):
        (error,) = ctx.saved_tensors
        grad = g * 2 * error / error.numel()
        return grad, -grad
