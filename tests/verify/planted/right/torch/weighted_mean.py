"""Mean of rows with weights."""

import torch


class WeightedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, weights):
        total = weights.sum()
        mean = (values * weights).sum(dim=0) / total
        ctx.save_for_backward(values, weights, mean, total)
        return mean

    @staticmethod
    def backward(ctx, g):
        values, weights, mean, total = ctx.saved_tensors
        grad_values = weights * g / total
        grad_weights = ((values - mean) * g).sum(dim=1, keepdim=True) / total
        return grad_values, grad_weights
