"""Batch normalization over rows, in training mode."""

import torch


class BatchNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        mu = x.mean(0)
        xmu = x - mu
        ivar = 1.0 / torch.sqrt((xmu**2).mean(0) + 1e-5)
        ctx.save_for_backward(xmu, ivar, gamma)
        return gamma * xmu * ivar + beta

    @staticmethod
    def backward(ctx, dout):
        xmu, ivar, gamma = ctx.saved_tensors
        n = dout.size(0)
        xhat = xmu * ivar
        dbeta = dout.sum(0)
        dgamma = torch.sum(dout * xhat, 0)
        dx = n * dout - dbeta - xhat * dgamma
        dx = gamma * ivar * dx / n
        return dx, dgamma, dbeta
