"""Hand-written passes, and slips in them: each a piece of the right backward and what stands there
instead. No slip says how it is to be undone."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

OPS: dict[str, str] = {
    "linear": """
def forward(x, w, b):
    return x @ w + b

def backward(g, x, w, b):
    dx = g @ w.T
    dw = x.T @ g
    db = g.sum(axis=0)
    return dx, dw, db
""",
    "softmax": """
def forward(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y, (y,)

def backward(g, cache):
    (y,) = cache
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
""",
    "layer_norm": """
EPS = 1e-5

def forward(x, gamma, beta):
    mu = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    std = np.sqrt(var + EPS)
    xhat = (x - mu) / std
    return xhat * gamma + beta, (xhat, std, gamma)

def backward(g, cache):
    xhat, std, gamma = cache
    dgamma = (g * xhat).sum(axis=0)
    dbeta = g.sum(axis=0)
    dxhat = g * gamma
    mean = dxhat.mean(axis=-1, keepdims=True)
    proj = (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = (dxhat - mean - xhat * proj) / std
    return dx, dgamma, dbeta
""",
    "attention": """
def forward(q, k, v):
    d = q.shape[-1]
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p @ v, (q, k, v, p)

def backward(g, cache):
    q, k, v, p = cache
    d = q.shape[-1]
    dv = p.swapaxes(-1, -2) @ g
    dp = g @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(d)
    dq = ds @ k
    dk = ds.swapaxes(-1, -2) @ q
    return dq, dk, dv
""",
    "conv1d": """
def forward(x, w):
    n, t = x.shape
    k = w.shape[0]
    y = np.zeros((n, t - k + 1))
    for i in range(k):
        y += x[:, i : i + t - k + 1] * w[i]
    return y

def backward(g, x, w):
    n, t = x.shape
    k = w.shape[0]
    m = t - k + 1
    dx = np.zeros_like(x)
    dw = np.zeros_like(w)
    for i in range(k):
        dx[:, i : i + m] += g * w[i]
        dw[i] = (g * x[:, i : i + m]).sum()
    return dx, dw
""",
    "cross_entropy": """
def forward(z, t):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    n = z.shape[0]
    return -np.log(p[np.arange(n), t]).mean(), (p, t)

def backward(g, cache):
    p, t = cache
    n = p.shape[0]
    dz = p.copy()
    dz[np.arange(n), t] -= 1.0
    return g * dz / n
""",
    "gelu": """
def forward(x):
    u = 0.7978845608028654 * (x + 0.044715 * x**3)
    t = np.tanh(u)
    return 0.5 * x * (1 + t), (x, t)

def backward(g, cache):
    x, t = cache
    du = 0.7978845608028654 * (1 + 3 * 0.044715 * x**2)
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * du)
""",
    "rms_norm": """
EPS = 1e-6

def forward(x, w):
    r = 1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + EPS)
    return x * r * w, (x, r, w)

def backward(g, cache):
    x, r, w = cache
    gw = g * w
    dw = (g * x * r).sum(axis=0)
    dx = r * gw - x * r**3 * (gw * x).mean(axis=-1, keepdims=True)
    return dx, dw
""",
    "batch_norm": """
EPS = 1e-5

def forward(x, gamma, beta):
    mu = x.mean(axis=0)
    xmu = x - mu
    var = (xmu**2).mean(axis=0)
    ivar = 1.0 / np.sqrt(var + EPS)
    xhat = xmu * ivar
    return gamma * xhat + beta, (xhat, gamma, ivar)

def backward(g, cache):
    xhat, gamma, ivar = cache
    n = g.shape[0]
    dbeta = g.sum(axis=0)
    dgamma = (g * xhat).sum(axis=0)
    dxhat = g * gamma
    dx = ivar / n * (n * dxhat - dxhat.sum(axis=0) - xhat * (dxhat * xhat).sum(axis=0))
    return dx, dgamma, dbeta
""",
    "embedding": """
def forward(w, ids):
    return w[ids]

def backward(g, w, ids):
    dw = np.zeros_like(w)
    np.add.at(dw, ids, g)
    return dw
""",
    "rnn": """
def forward(x, h, wx, wh, b):
    y = np.tanh(x @ wx + h @ wh + b)
    return y, (x, h, wx, wh, y)

def backward(g, cache):
    x, h, wx, wh, y = cache
    da = g * (1 - y**2)
    dx = da @ wx.T
    dh = da @ wh.T
    dwx = x.T @ da
    dwh = h.T @ da
    db = da.sum(axis=0)
    return dx, dh, dwx, dwh, db
""",
    "mlp_loss": """
def forward(x, w1, b1, w2):
    a = x @ w1 + b1
    h = np.maximum(a, 0.0)
    y = h @ w2
    return 0.5 * (y**2).mean(), (x, w1, w2, a, h, y)

def backward(g, cache):
    x, w1, w2, a, h, y = cache
    dy = g * y / y.size
    dw2 = h.T @ dy
    dh = dy @ w2.T
    da = dh * (a > 0)
    dw1 = x.T @ da
    db1 = da.sum(axis=0)
    dx = da @ w1.T
    return dx, dw1, db1, dw2
""",
    "scaled_sum": """
def forward(x, s):
    y = x * s
    return (y + np.sin(y)).sum(axis=1)

def backward(g, x, s):
    y = x * s
    dy = g[:, None] * (1 + np.cos(y))
    dx = dy * s
    ds = (dy * x).sum(axis=0)
    return dx, ds
""",
    "leaky": """
SLOPE = 0.1

def forward(x):
    return np.where(x > 0, x, SLOPE * x)

def backward(g, x):
    return g * np.where(x > 0, 1.0, SLOPE)
""",
}

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "linear": {"x": (4, 3), "w": (3, 5), "b": (5,)},
    "softmax": {"x": (3, 5)},
    "layer_norm": {"x": (4, 6), "gamma": (6,), "beta": (6,)},
    "attention": {"q": (2, 4, 3), "k": (2, 5, 3), "v": (2, 5, 2)},
    "conv1d": {"x": (2, 7), "w": (3,)},
    "cross_entropy": {"z": (4, 3), "t": (4,)},
    "gelu": {"x": (3, 4)},
    "rms_norm": {"x": (3, 5), "w": (5,)},
    "batch_norm": {"x": (6, 4), "gamma": (4,), "beta": (4,)},
    "embedding": {"w": (5, 3), "ids": (7,)},
    "rnn": {"x": (3, 4), "h": (3, 5), "wx": (4, 5), "wh": (5, 5), "b": (5,)},
    "mlp_loss": {"x": (4, 3), "w1": (3, 6), "b1": (6,), "w2": (6, 2)},
    "scaled_sum": {"x": (4, 3), "s": (3,)},
    "leaky": {"x": (4, 5)},
}

SLIPS: list[tuple[str, str, str]] = [
    ("linear", "g @ w.T", "g @ w.T / 2"),
    ("linear", "x.T @ g", "-x.T @ g"),
    ("linear", "x.T @ g", "x.T @ g / x.shape[0]"),
    ("linear", "g.sum(axis=0)", "g.mean(axis=0)"),
    ("linear", "return dx, dw, db", "return dx, dw, None"),
    ("linear", "return dx, dw, db", "return dx, np.zeros_like(w), db"),
    ("linear", "x.T @ g", "x.T @ np.ones_like(g)"),
    ("linear", "x.T @ g", "x.T @ (g * g)"),
    ("softmax", "y * (g - (g * y).sum(axis=-1, keepdims=True))", "y * g"),
    ("softmax", "sum(axis=-1", "sum(axis=0"),
    ("softmax", "g - (g", "g + (g"),
    ("softmax", "(g * y).sum", "g.sum"),
    ("softmax", "y * (g - (g * y)", "(g - (g * y)"),
    ("softmax", ".sum(axis", ".mean(axis"),
    ("layer_norm", "dxhat - mean - xhat * proj", "dxhat - xhat * proj"),
    ("layer_norm", "dxhat - mean - xhat * proj", "dxhat - mean"),
    ("layer_norm", "dxhat - mean - xhat * proj", "dxhat"),
    ("layer_norm", "xhat * proj", "proj"),
    ("layer_norm", "/ std", "/ std**2"),
    ("layer_norm", "/ std", "* std"),
    ("layer_norm", "dxhat = g * gamma", "dxhat = g"),
    ("layer_norm", "(g * xhat).sum(axis=0)", "(g * xhat).mean(axis=0)"),
    ("layer_norm", "proj = (dxhat * xhat).mean(axis=-1", "proj = (dxhat * xhat).mean(axis=0"),
    ("layer_norm", "(dxhat * xhat).mean", "(dxhat * xhat).sum"),
    ("layer_norm", "return dx, dgamma, dbeta", "return dx, dbeta, dgamma"),
    ("attention", ") / np.sqrt(d)", ")"),
    ("attention", ") / np.sqrt(d)", ") / d"),
    ("attention", "dp - (dp * p).sum(axis=-1, keepdims=True)", "dp"),
    ("attention", "dk = ds.swapaxes(-1, -2) @ q", "dk = ds.swapaxes(-1, -2) @ q / 2"),
    ("attention", "return dq, dk, dv", "return dq, dk, -dv"),
    ("attention", "(dp * p)", "(dp * dp)"),
    ("attention", "dq = ds @ k", "ds = np.zeros_like(ds)\n    dq = ds @ k"),
    ("conv1d", "+= g * w[i]", "= g * w[i]"),
    ("conv1d", "+= g * w[i]", "+= g * w[k - 1 - i]"),
    ("conv1d", "+= g * w[i]", "-= g * w[i]"),
    ("conv1d", "(g * x[:, i : i + m]).sum()", "(g * x[:, i : i + m]).mean()"),
    ("conv1d", "dw[i] = (g", "dw[i] = 2 * (g"),
    ("cross_entropy", "g * dz / n", "g * dz"),
    ("cross_entropy", "-= 1.0", "+= 1.0"),
    ("cross_entropy", "-= 1.0", "-= 0.5"),
    ("cross_entropy", "g * dz / n", "dz / n"),
    ("cross_entropy", "n = p.shape[0]", "n = p.shape[1]"),
    ("cross_entropy", "n = p.shape[0]", "n = 8"),
    ("gelu", "3 * 0.044715", "0.044715"),
    ("gelu", "0.5 * (1 + t) +", "0.5 * (1 + t) -"),
    ("gelu", "(1 - t**2)", "(1 - t)"),
    ("gelu", "0.5 * (1 + t) + 0.5 * x", "0.5 * (1 + t) + x"),
    ("gelu", "* (1 - t**2) * du", "* (1 - t**2)"),
    ("gelu", "0.5 * (1 + t) + 0.5", "0.5"),
    ("gelu", "x**2", "x**3"),
    ("rms_norm", "r**3", "r**2"),
    ("rms_norm", "(gw * x).mean", "(gw * x).sum"),
    ("rms_norm", "dx = r * gw - x * r**3 * (gw * x).mean(axis=-1, keepdims=True)", "dx = r * gw"),
    ("rms_norm", "(gw * x).mean", "(g * x).mean"),
    ("rms_norm", "g * x * r", "g * x"),
    ("batch_norm", "(dxhat * xhat).sum(axis=0))", "(dxhat * xhat).sum(axis=1, keepdims=True))"),
    ("batch_norm", "n * dxhat - dxhat.sum(axis=0)", "n * dxhat"),
    ("batch_norm", "ivar / n", "ivar"),
    ("batch_norm", "n = g.shape[0]", "n = g.shape[1]"),
    ("batch_norm", "- xhat * (dxhat", "+ xhat * (dxhat"),
    ("batch_norm", "g.sum(axis=0)", "g"),
    ("embedding", "np.add.at(dw, ids, g)", "dw[ids] = g"),
    ("embedding", "np.add.at(dw, ids, g)", "dw[ids] += g"),
    ("embedding", "return dw", "return dw / len(ids)"),
    ("rnn", "1 - y**2", "1 - y"),
    ("rnn", "1 - y**2", "1 + y**2"),
    ("rnn", "g * (1 - y**2)", "g"),
    ("rnn", "dh = da @ wh.T", "dh = da @ wh"),
    ("rnn", "dwh = h.T @ da", "dwh = (h.T @ da).T"),
    ("rnn", "dwh = h.T @ da", "dwh = y.T @ da"),
    ("rnn", "da.sum(axis=0)", "g.sum(axis=0)"),
    ("rnn", "return dx, dh, dwx, dwh, db", "return dx, None, dwx, dwh, db"),
    ("mlp_loss", "g * y / y.size", "g * y"),
    ("mlp_loss", "g * y / y.size", "g * y / len(y)"),
    ("mlp_loss", "dh * (a > 0)", "dh"),
    ("mlp_loss", "dh * (a > 0)", "dh * (a < 0)"),
    ("mlp_loss", "dh * (a > 0)", "dh * h"),
    ("mlp_loss", "dw1 = x.T @ da", "dw1 = x.T @ dh"),
    ("scaled_sum", "1 + np.cos(y)", "np.cos(y)"),
    ("scaled_sum", "1 + np.cos(y)", "1 - np.cos(y)"),
    ("scaled_sum", "1 + np.cos(y)", "1 + np.sin(y)"),
    ("scaled_sum", "ds = (dy * x).sum(axis=0)", "ds = dy * x"),
    ("scaled_sum", "dx = dy * s", "dx = dy * s * s"),
    ("leaky", "np.where(x > 0, 1.0, SLOPE)", "(x > 0)"),
    ("leaky", "x > 0, 1.0", "x < 0, 1.0"),
    ("leaky", "1.0, SLOPE)", "1.0, 1.0)"),
]
"""Op, a piece of its backward, and what stands there instead."""

TWICE: list[tuple[str, list[tuple[str, str]]]] = [
    ("linear", [("g @ w.T", "-g @ w.T"), ("g.sum(axis=0)", "g.mean(axis=0)")]),
    ("rnn", [("dh = da @ wh.T", "dh = da @ wh"), ("dwx = x.T @ da", "dwx = 2 * x.T @ da")]),
    ("layer_norm", [("(g * xhat).sum", "(g * xhat).mean"), ("/ std", "/ std**2")]),
    ("attention", [("dp - (dp * p).sum(axis=-1, keepdims=True)", "dp"), (") / np.sqrt(d)", ")")]),
]
"""Two slips in one backward."""


@dataclass(frozen=True)
class Case:
    """A module with a wrong backward, and arguments for its forward."""

    module: Any
    args: tuple[Any, ...]


def arguments(op: str, seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for name, shape in SHAPES[op].items():
        whole = name in ("t", "ids")
        found.append(rng.integers(0, 3, shape) if whole else rng.standard_normal(shape))
    return tuple(found)


def case(op: str, slips: list[tuple[str, str]], folder: Path, number: int) -> Case:
    """Write the op with its slips to a file and import that."""
    head, tail = OPS[op].split("def backward")
    for right, wrong in slips:
        assert right in tail, (op, right)
        tail = tail.replace(right, wrong, 1)
    return Case(
        module(f"import numpy as np\n{head}def backward{tail}", folder, number), arguments(op)
    )


def module(text: str, folder: Path, number: int) -> Any:
    """The module of a text; it has a file, so that its source can be read."""
    name = f"repair_case_{number}"
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made
