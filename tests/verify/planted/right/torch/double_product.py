"""A scaled product of matrices that can be differentiated twice."""

import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return torch.tanh(x @ w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        y = torch.tanh(x @ w)
        a = g * (1 - y * y)
        return a @ w.t(), x.t() @ a
