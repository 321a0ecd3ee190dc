"""Mean squared error."""

import numpy as np


def mse(pred, target):
    diff = pred - target
    return np.mean(diff**2)


def mse_backward(g, pred, target):
    diff = pred - target
    dpred = 2.0 * diff / diff.size
    return g * dpred, -g * dpred
