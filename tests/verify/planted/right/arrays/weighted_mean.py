"""The mean of the rows of x, each with its weight."""

import numpy as np


def weighted_mean(x, w):
    return (w * x).sum(axis=0) / w.sum()


def weighted_mean_vjp(g, x, w):
    total = w.sum()
    y = (w * x).sum(axis=0) / total
    dx = w * g / total
    dw = np.sum(g * x, axis=1, keepdims=True) / total
    dw -= np.sum(g * y) / total
    return dx, dw
