"""More hand-written passes, and slips in them: each a piece of the right backward and what stands
there instead. The line with the slip is the line that must be found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.verify.repair.repair_cases import module

_GATED = """
def sig(v):
    return 1 / (1 + np.exp(-v))

def forward(x, h, w, u):
    n = h.shape[1]
    a = x @ w + h @ u
    z, k, r = sig(a[:, :n]), sig(a[:, n : 2 * n]), np.tanh(a[:, 2 * n : 3 * n])
    o = sig(a[:, 3 * n :])
    y = o * (z * h + k * r)
    return y, (x, h, w, u, z, k, r, o, y)

def backward(g, cache):
    x, h, w, u, z, k, r, o, y = cache
    da = np.concatenate(
        [
            g * o * h * z * (1 - z),
            g * o * r * k * (1 - k),
            g * o * k * (1 - r**2),
            g * y * (1 - o),
        ],
        axis=1,
    )
    dh = da @ u.T + g * o * z
    return da @ w.T, dh, x.T @ da, h.T @ da
"""
_LAYERS = """
class Scale:
    def __init__(self, n):
        self.s = np.linspace(0.5, 1.5, n)
    def forward(self, x):
        self.x = x
        return np.tanh(x * self.s)
    def backward(self, g):
        g = g * (1 - np.tanh(self.x * self.s) ** 2)
        return g * self.s

class Stack:
    def __init__(self):
        self.layers = [Scale(4), Scale(4), Scale(4)]
    def forward(self, x):
        y = x
        for f in self.layers:
            y = f.forward(y)
        return RETURNED
    def backward(self, grad):
        up = grad
        for f in reversed(self.layers):
            up = f.backward(up)
        return UNDONE
"""
_PRODUCT = """
def forward(x, v):
    a, u = x @ v, np.cos(x @ v)
    t = np.tanh(u)
    return t * np.sin(a), (x, v, a, u, t)

def backward(g, cache):
    x, v, a, u, t = cache
    du = g * np.sin(a) * (1 - t * t)
    da = g * t * np.cos(a) - du * np.sin(a)
    return da @ v.T, x.T @ da
"""
_SWISH = """
class Swish:
    def forward(self, x):
        e = np.exp(x)
        p = e / (1 + e)
        self.kept = (e, x, p)
        return x * p
    def backward(self, g):
        e, x, p = self.kept
        slope = p + x * p * (1 - p)
        return g * slope
"""
_NORMED = """
class Norm:
    def __init__(self, eps=3e-3, slope=0.07):
        self.eps, self.slope = eps, slope
    def forward(self, x):
        self.x = x
        self.length = np.sqrt((x * x).sum(-1, keepdims=True) + self.eps)
        y = x / self.length
        return np.where(y > 0, y, self.slope * y)
    def backward(self, g):
        length = np.sqrt((self.x * self.x).sum(-1, keepdims=True) + self.eps)
        y = self.x / length
        d = np.where(y > 0, g, self.slope * g)
        return (d - y * (d * y).sum(-1, keepdims=True)) / length
"""
_LOGS = """
def forward(p, q):
    r = np.log(p * p + 2e-2) - np.log(q * q + 2e-2)
    return np.clip(r, -1.25, 1.25) * p

def backward(g, p, q):
    r = np.log(p * p + 2e-2) - np.log(q * q + 2e-2)
    inside = (r > -1.25) & (r < 1.25)
    dr = g * p * inside
    dp = g * np.clip(r, -1.25, 1.25) + dr * 2 * p / (p * p + 2e-2)
    return dp, -dr * 2 * q / (q * q + 2e-2)
"""
_CENTRED = """
def forward(x, w):
    c = x - x.mean(axis=(1, 2), keepdims=True)
    return c * c * w, (c, w)

def backward(g, cache):
    c, w = cache
    over = (1, 2)
    dc = 2 * g * c * w
    dx = dc - dc.sum(axis=over, keepdims=True) / c[0, :, :].size
    return dx, (g * c * c).sum(axis=0)
"""
_SPREAD = """
def forward(x):
    m = x.mean(axis=(1, 2), keepdims=True)
    v = ((x - m) ** 2).mean(axis=(1, 2), keepdims=True)
    s = np.sqrt(v + 0.1)
    return (x - m) / s, ((x - m) / s, s)

def backward(g, cache):
    y, s = cache
    over = (1, 2)
    along = (g * y).mean(axis=over, keepdims=True)
    return (g - g.mean(axis=over, keepdims=True) - y * along) / s
"""
_MEANS = """
def forward(x):
    return np.sum(np.log(np.cosh(x))) / len(x)

def backward(g, x):
    n = len(x)
    dx = np.tanh(x)
    dx *= g / n
    return dx
"""
_VOTES = """
def forward(x, w):
    return np.mean(np.sin(x) * w), (x, w)

def backward(g, cache):
    x, w = cache
    dx = np.cos(x) * w
    dw = np.sin(x) * g / x.size
    dx *= g / x.size
    return dx, dw
"""
_SHARES = """
def forward(x):
    c = np.cosh(x)
    n = c.sum(axis=0, keepdims=True)
    return x - np.log(n), (np.sinh(x) / n,)

def backward(g, cache):
    (p,) = cache
    total = g.sum(axis=0)
    return g - p * total
"""
_STEPS = """
def forward(x, w):
    d = x[:, 1:] - x[:, :-1]
    return (w * np.cos(d)).sum(axis=1), (d, w)

def backward(g, cache):
    d, w = cache
    e = -w * np.sin(d) * g[:, None]
    dx = np.pad(e, ((0, 0), (1, 0))) - np.pad(e, ((0, 0), (0, 1)))
    dw = (np.cos(d) * g[:, None]).sum(axis=0)
    return dx, dw
"""
_SPANS = """
def forward(x, a):
    d = np.diff(x, axis=0)
    return (a * d * d).sum(axis=1), (d, a)

def backward(g, cache):
    d, a = cache
    e = 2 * a * d * g[:, None]
    dx = np.zeros((len(d) + 1, d.shape[1]))
    dx[1:] += e
    dx[:-1] -= e
    return dx, (g[:, None] * d * d).sum(axis=0)
"""
_NEIGHBOURS = """
def forward(x, w):
    return (w * x[1:] * x[:-1]).sum(axis=1), (x, w)

def backward(g, cache):
    x, w = cache
    e = np.ones((len(x) - 1, 1)) * w * g[:, None]
    dx = np.zeros_like(x)
    dx[1:] = e * x[:-1]
    dx[:-1] += e * x[1:]
    return dx, (g[:, None] * x[1:] * x[:-1]).sum(axis=0)
"""
_BELL = """
class Bell:
    def forward(self, x):
        q = x * x
        y = np.exp(-q)
        self.kept = q, y, x
        return y * y
    def backward(self, g):
        q, y, x = self.kept
        slope = -4 * x * y * y
        return g * slope
"""
_SOFT = """
def forward(x):
    return x / (1 + np.exp(-3.5 * x))

def backward(g, x):
    s = 1 / (1 + np.exp(-3.5 * x))
    return g * (s + 3.5 * x * s * (1 - s))
"""
_SERIES = """
def forward(x):
    far = np.where(np.abs(x) < 0.1, 1, x)
    return np.where(np.abs(x) < 0.1, 0.5 - x**2 / 24 + x**4 / 720, (1 - np.cos(far)) / far**2)

def backward(g, x):
    near = np.abs(x) < 0.1
    far = np.where(near, 1, x)
    slope = (far * np.sin(far) - 2 * (1 - np.cos(far))) / far**3
    return g * np.where(near, -x / 12 + x**3 / 180 - x**5 / 6720, slope)
"""
_EXPM1 = """
class Ratio:
    bound = 0.05
    def forward(self, x):
        self.x = x
        far = np.where(np.abs(x) > self.bound, x, 1)
        series = 1 + x / 2 + x**2 / 6 + x**3 / 24 + x**4 / 120
        return np.where(np.abs(x) > self.bound, np.expm1(far) / far, series)
    def backward(self, g):
        x, limit = self.x, 0.05
        far = np.where(np.abs(x) > limit, x, 1)
        slope = (far * np.exp(far) - np.expm1(far)) / far**2
        series = 0.5 + x / 3 + x**2 / 8 + x**3 / 30 + x**4 / 144
        return g * np.where(np.abs(x) > limit, slope, series)
"""
_LANGEVIN = """
def forward(x):
    far = np.where(x * x < 0.02, 1, x)
    return np.where(x * x < 0.02, x / 3 - x**3 / 45, 1 / np.tanh(far) - 1 / far)

def backward(g, x):
    large = x * x > 0.02
    far = np.where(large, x, 1)
    slope = 1 / far**2 - 1 / np.sinh(far) ** 2
    return g * np.where(large, slope, 1 / 3 - x**2 / 15 + 2 * x**4 / 189)
"""
_SHIFT = """
def forward(x, b):
    y = np.tanh(x + b)
    return y, (b, y)

def backward(g, cache):
    b, y = cache
    dx = g * (1 - y * y)
    db = dx.sum(axis=0)
    return dx, db
"""


def _stack(returned: str, undone: str) -> str:
    return _LAYERS.replace("RETURNED", returned).replace("UNDONE", undone)


OPS: dict[str, tuple[str, tuple[tuple[int, ...], ...]]] = {
    "gated": (_GATED, ((3, 4), (3, 2), (4, 8), (2, 8))),
    "skip": (_stack("x + y", "grad + up"), ((3, 4),)),
    "triple": (_stack("3 * x + y", "3 * grad + up"), ((3, 4),)),
    "past": (_stack("y - 2 * x", "up - 2 * grad"), ((3, 4),)),
    "product": (_PRODUCT, ((3, 4), (4, 5))),
    "swish": (_SWISH, ((3, 4),)),
    "normed": (_NORMED, ((3, 4),)),
    "logs": (_LOGS, ((3, 4), (3, 4))),
    "centred": (_CENTRED, ((2, 3, 4), (3, 4))),
    "spread": (_SPREAD, ((2, 3, 4),)),
    "means": (_MEANS, ((4, 3),)),
    "votes": (_VOTES, ((4, 3), (4, 3))),
    "shares": (_SHARES, ((3, 4),)),
    "steps": (_STEPS, ((3, 5), (4,))),
    "spans": (_SPANS, ((4, 5), (5,))),
    "neighbours": (_NEIGHBOURS, ((4, 3), (3,))),
    "bell": (_BELL, ((3, 4),)),
    "soft": (_SOFT, ((3, 4),)),
    "series": (_SERIES, ()),
    "ratio": (_EXPM1, ()),
    "langevin": (_LANGEVIN, ()),
    "shift": (_SHIFT, ((3, 4), (4,))),
}
_LAYER_NAMES = ("Stack", "Swish", "Norm", "Bell", "Ratio")
_SMALL = np.array([[1.5, -0.7, 3e-3], [2e-3, -6e-3, 2.0]], np.float32)


def given(op: str, right: str, wrong: str, folder: Path, number: int) -> tuple[Any, ...]:
    """What is checked, and its arguments: a forward and a backward, or a layer; with a slip."""
    text, shapes = OPS[op]
    assert right == wrong or text.count(right) == 1
    made = module("import numpy as np\n" + text.replace(right, wrong), folder, number)
    rng = np.random.default_rng(number)
    args = [rng.standard_normal(s) for s in shapes] or [_SMALL]
    layers = [getattr(made, k) for k in _LAYER_NAMES if hasattr(made, k)]
    return (layers[0](), *args) if layers else (made.forward, made.backward, *args)
