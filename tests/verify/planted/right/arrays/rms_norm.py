"""Root-mean-square normalization."""

import numpy as np


def rmsnorm(x, weight, eps=1e-6):
    r = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    return x * r * weight


def rmsnorm_grad(x, weight, g, eps=1e-6):
    n = x.shape[-1]
    r = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)
    gw = g * weight
    dx = gw * r
    dx -= x * r**3 * np.sum(gw * x, axis=-1, keepdims=True) / n
    dweight = np.sum(g * x * r, axis=0)
    return dx, dweight
