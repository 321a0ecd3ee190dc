"""One attention head that makes its queries, keys and values itself."""

import numpy as np


class Head:
    def __init__(self, Wq, Wk, Wv):
        self.params = {"Wq": Wq, "Wk": Wk, "Wv": Wv}
        self.grads = {}

    def forward(self, x):
        self.x = x
        self.q = x @ self.params["Wq"]
        self.k = x @ self.params["Wk"]
        self.v = x @ self.params["Wv"]
        s = np.einsum("btd,bsd->bts", self.q, self.k) / np.sqrt(self.q.shape[-1])
        s = np.exp(s - s.max(axis=-1, keepdims=True))
        self.p = s / s.sum(axis=-1, keepdims=True)
        return np.einsum("bts,bsd->btd", self.p, self.v)

    def backward(self, g):
        dp = np.einsum("btd,bsd->bts", g, self.v)
        dv = np.einsum("bts,btd->bsd", self.p, g)
        ds = self.p * (dp - np.sum(dp * self.p, axis=-1, keepdims=True))
        ds = ds / np.sqrt(self.q.shape[-1])
        dq = np.einsum("bts,bsd->btd", ds, self.k)
        dk = np.einsum("bts,btd->bsd", ds, self.q)
        self.grads["Wq"] = np.einsum("bti,btj->ij", self.x, dq)
        self.grads["Wk"] = np.einsum("bti,btj->ij", self.x, dk)
        self.grads["Wv"] = np.einsum("bti,btj->ij", self.x, dv)
        dx = dq @ self.params["Wq"].T
        dx += dk @ self.params["Wk"].T
        dx += dv @ self.params["Wv"].T
        return dx
