"""Maximum over windows of 2 by 2 that overlap (stride 1 along the last axis, 2 before it)."""

import numpy as np


class MaxPool:
    def forward(self, x):
        self.x = x
        B, C, H, W = x.shape
        out = np.empty((B, C, H // 2, W - 1), dtype=x.dtype)
        for i in range(H // 2):
            for j in range(W - 1):
                out[:, :, i, j] = x[:, :, 2 * i : 2 * i + 2, j : j + 2].max(axis=(2, 3))
        self.out = out
        return out

    def backward(self, dout):
        dx = np.zeros_like(self.x)
        for i in range(dout.shape[2]):
            for j in range(dout.shape[3]):
                window = self.x[:, :, 2 * i : 2 * i + 2, j : j + 2]
                best = window == self.out[:, :, i, j][:, :, None, None]
                share = best / best.sum(axis=(2, 3), keepdims=True)
                part = dout[:, :, i, j][:, :, None, None]
                dx[:, :, 2 * i : 2 * i + 2, j : j + 2] += share * part
        return dx
