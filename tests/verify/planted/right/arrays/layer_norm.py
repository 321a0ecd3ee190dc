"""Layer normalization over the last axis."""

import numpy as np

EPS = 1e-5


def layernorm_forward(x, gamma, beta):
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    inv_std = 1.0 / np.sqrt(var + EPS)
    xhat = (x - mu) * inv_std
    return gamma * xhat + beta, (xhat, inv_std, gamma)


def layernorm_backward(dout, cache):
    xhat, inv_std, gamma = cache
    dgamma = (dout * xhat).sum(axis=0)
    dbeta = dout.sum(axis=0)
    dxhat = dout * gamma
    m1 = dxhat.mean(axis=-1, keepdims=True)
    m2 = (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = inv_std * (dxhat - m1 - xhat * m2)
    return dx, dgamma, dbeta
