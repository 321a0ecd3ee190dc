"""Layer normalization over the features."""

import torch


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps=1e-5):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, unbiased=False, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        norm = (x - mean) * rstd
        ctx.save_for_backward(norm, rstd, weight)
        return norm * weight + bias

    @staticmethod
    def backward(ctx, grad):
        norm, rstd, weight = ctx.saved_tensors
        d_weight = (grad * norm).sum(dim=0)
        d_bias = grad.sum(dim=0)
        d_norm = grad * weight
        d_x = d_norm - d_norm.mean(-1, keepdim=True)
        d_x -= norm * (d_norm * norm).mean(-1, keepdim=True)
        d_x *= rstd
        return d_x, d_weight, d_bias, None
