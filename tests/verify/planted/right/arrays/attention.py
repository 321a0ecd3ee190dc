"""Scaled dot-product attention, with a cache for the backward pass."""

import numpy as np


def softmax_rows(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attend(q, k, v):
    scale = 1.0 / np.sqrt(q.shape[-1])
    weights = softmax_rows(q @ k.transpose(0, 2, 1) * scale)
    out = weights @ v
    return out, (q, k, v, weights, scale)


def attend_backward(dout, cache):
    q, k, v, weights, scale = cache
    dv = weights.transpose(0, 2, 1) @ dout
    dweights = dout @ v.transpose(0, 2, 1)
    rows = (dweights * weights).sum(axis=-1, keepdims=True)
    dscores = weights * (dweights - rows)
    dscores = dscores * scale
    dq = dscores @ k
    dk = dscores.transpose(0, 2, 1) @ q
    return dq, dk, dv
