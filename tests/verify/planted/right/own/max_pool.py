"""Maximum over windows of 2 by 2, by reshaping."""

import numpy as np

import chainrule as cr


class MaxPool(cr.Function):
    @staticmethod
    def forward(ctx, x):
        a = x.numpy()
        B, C, H, W = a.shape
        windows = a.reshape(B, C, H // 2, 2, W // 2, 2)
        y = windows.max(axis=(3, 5))
        ctx.mask = windows == y[:, :, :, None, :, None]
        return cr.tensor(y)

    @staticmethod
    def backward(ctx, g):
        g = g.numpy()[:, :, :, None, :, None]
        counts = ctx.mask.sum(axis=(3, 5), keepdims=True)
        spread = np.where(ctx.mask, g / counts, 0.0)
        B, C, h, _, w, _ = spread.shape
        return cr.tensor(spread.reshape(B, C, 2 * h, 2 * w))
