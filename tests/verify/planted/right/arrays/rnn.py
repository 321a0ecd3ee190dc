"""A recurrent layer run over all time steps, and back through time."""

import numpy as np


def rnn_forward(xs, h0, Wx, Wh, b):
    h, hs = h0, []
    for x in xs:
        h = np.tanh(x @ Wx + h @ Wh + b)
        hs.append(h)
    return np.stack(hs), (xs, h0, Wx, Wh, hs)


def rnn_backward(dhs, cache):
    xs, h0, Wx, Wh, hs = cache
    dxs = np.zeros_like(xs)
    dWx, dWh = np.zeros_like(Wx), np.zeros_like(Wh)
    db = np.zeros(Wh.shape[0], dtype=Wh.dtype)
    carry = np.zeros_like(h0)
    for t in range(len(xs) - 1, -1, -1):
        before = hs[t - 1] if t > 0 else h0
        dh = dhs[t] + carry
        da = dh * (1.0 - hs[t] ** 2)
        dxs[t] = da @ Wx.T
        dWx += xs[t].T @ da
        dWh += before.T @ da
        db += da.sum(axis=0)
        carry = da @ Wh.T
    return dxs, carry, dWx, dWh, db
