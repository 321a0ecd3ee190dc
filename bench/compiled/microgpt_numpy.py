"""microgpt by hand in NumPy: forward, backward and Adam on whole arrays, float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.compiled.documents import BETAS, BLOCK, EPS, HEADS, SHAPES, Run

HIDDEN = np.triu(np.full((BLOCK, BLOCK), -1e30, np.float32), 1)


class Model:
    """Weights, gradients and moments: each one array, of which the matrices are views."""

    def __init__(self, run: Run) -> None:
        self.start = np.concatenate([x.ravel() for x in run.weights.values()])
        self.x, self.g, self.m, self.v, self.s, self.u = (
            np.zeros_like(self.start) for _ in range(6)
        )
        self.w, self.d = self._views(self.x), self._views(self.g)
        self.reset()

    def _views(self, flat: Any) -> dict[str, Any]:
        views, at = {}, 0
        for name, shape in SHAPES.items():
            views[name] = flat[at : at + math.prod(shape)].reshape(shape)
            at += math.prod(shape)
        return views

    def reset(self) -> None:
        self.x[:] = self.start
        self.m[:] = 0
        self.v[:] = 0
        self.t = 0

    def step(self, document: Any, rate: float) -> Any:
        loss = gradients(self.w, self.d, document)
        x, g, m, v, s, u = self.x, self.g, self.m, self.v, self.s, self.u
        self.t += 1
        b1, b2 = BETAS
        m *= b1
        np.multiply(g, 1 - b1, out=s)
        m += s
        v *= b2
        np.multiply(g, g, out=s)
        s *= 1 - b2
        v += s
        np.multiply(v, 1 / (1 - b2**self.t), out=s)
        np.sqrt(s, out=s)
        s += EPS
        np.multiply(m, rate / (1 - b1**self.t), out=u)
        u /= s
        x -= u
        return loss


def norm(x: Any) -> tuple[Any, Any]:
    r = 1 / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-5))
    return x * r, r


def norm_back(h: Any, r: Any, g: Any) -> Any:
    return r * (g - h * (g * h).mean(1, keepdims=True))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def gradients(w: dict[str, Any], d: dict[str, Any], document: Any) -> Any:
    """The loss; the gradients go into `d`."""
    tokens, targets, T = document[:-1], document[1:], len(document) - 1
    x0, r0 = norm(w["wte"][tokens] + w["wpe"][:T])
    h1, r1 = norm(x0)
    qkv = (h1 @ w["qkv"].T).reshape(T, 3, HEADS, -1).transpose(1, 2, 0, 3)
    q, k, v = qkv
    p = softmax(q @ k.transpose(0, 2, 1) * np.float32(0.5) + HIDDEN[:T, :T])
    out = (p @ v).transpose(1, 0, 2).reshape(T, -1)
    x1 = x0 + out @ w["proj"].T
    h2, r2 = norm(x1)
    a = np.maximum(h2 @ w["fc1"].T, 0)
    x2 = x1 + a @ w["fc2"].T
    y = softmax(x2 @ w["head"].T)
    rows = np.arange(T)
    loss = -np.log(y[rows, targets]).mean()

    y[rows, targets] -= 1
    y *= np.float32(1 / T)
    np.matmul(y.T, x2, out=d["head"])
    d2 = y @ w["head"]
    np.matmul(d2.T, a, out=d["fc2"])
    da = (d2 @ w["fc2"]) * (a > 0)
    np.matmul(da.T, h2, out=d["fc1"])
    d1 = d2 + norm_back(h2, r2, da @ w["fc1"])
    np.matmul(d1.T, out, out=d["proj"])
    do = (d1 @ w["proj"]).reshape(T, HEADS, -1).transpose(1, 0, 2)
    dp = do @ v.transpose(0, 2, 1)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * np.float32(0.5)
    dqkv = np.stack([ds @ k, ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ do])
    dqkv = dqkv.transpose(2, 0, 1, 3).reshape(T, -1)
    np.matmul(dqkv.T, h1, out=d["qkv"])
    de = norm_back(x0, r0, d1 + norm_back(h1, r1, dqkv @ w["qkv"]))
    d["wte"][:] = 0
    np.add.at(d["wte"], tokens, de)
    d["wpe"][:T] = de
    d["wpe"][T:] = 0
    return loss


def by_step(run: Run) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The whole run, and what starts it over."""
    model = Model(run)
    pairs = list(zip(run.documents, run.rates, strict=True))
    return lambda: [model.step(d, r) for d, r in pairs], model.reset
