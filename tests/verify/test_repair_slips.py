"""Slips of well-known layers, each undone where it was made: counts, gates, heads, bounds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sampling import sampled_file
from tests.verify.repair_cases import module

pytestmark = sampled_file(one_in=12)


_number = itertools.count(9000)

BATCH_NORM = """
import numpy as np

def forward(x, gamma, beta):
    mean = x.mean(axis=(0, 2, 3), keepdims=True)
    inv = 1 / np.sqrt(x.var(axis=(0, 2, 3), keepdims=True) + 1e-5)
    xhat = (x - mean) * inv
    return xhat * gamma[:, None, None] + beta[:, None, None], (xhat, inv, gamma)

def backward(g, cache):
    xhat, inv, gamma = cache
    m = xhat.size // xhat.shape[1]
    dgamma = (g * xhat).sum(axis=(0, 2, 3))
    dbeta = g.sum(axis=(0, 2, 3))
    dx = g - (dbeta[:, None, None] + xhat * dgamma[:, None, None]) / m
    return dx * gamma[:, None, None] * inv, dgamma, dbeta
"""

HEADS = """
import numpy as np

def forward(x, w, keys):
    t, d = x.shape
    q = (x @ w).reshape(t, len(keys), -1).transpose(1, 0, 2)
    return q @ keys.transpose(0, 2, 1)

def backward(g, x, w, keys):
    t, d = x.shape
    dq = (g @ keys).transpose(1, 0, 2).reshape(t, d)
    q = (x @ w).reshape(t, len(keys), -1).transpose(1, 0, 2)
    return dq @ w.T, x.T @ dq, g.transpose(0, 2, 1) @ q
"""

GATED = """
import numpy as np

def sigmoid(x):
    return 1 / (1 + np.exp(-x))

def forward(x, u, v):
    h, kept = np.zeros((x.shape[0], u.shape[0])), []
    for t in range(x.shape[1]):
        z = sigmoid(x[:, t] + h @ u)
        n = np.tanh(x[:, t] + h @ v)
        kept.append((h, z, n))
        h = (1 - z) * n + z * h
    return h, (kept, u, v)

def backward(dh, cache):
    kept, u, v = cache
    du, dv, dxs = np.zeros_like(u), np.zeros_like(v), []
    for h, z, n in reversed(kept):
        dn = dh * (1 - z) * (1 - n ** 2)
        dz = dh * (h - n) * z * (1 - z)
        du += h.T @ dz
        dv += h.T @ dn
        dxs.append(dn + dz)
        dh = dh * z + dn @ v.T + dz @ u.T
    return np.stack(dxs[::-1], axis=1), du, dv
"""

NOISE = """
import numpy as np

def log_sigmoid(x):
    return -np.log1p(np.exp(-x))

def forward(v, u, w):
    pos = np.einsum("nd,nd->n", v, u)
    neg = np.einsum("nd,nkd->nk", v, w)
    return -(log_sigmoid(pos).sum() + log_sigmoid(-neg).sum()), (v, u, w, pos, neg)

def backward(g, cache):
    v, u, w, pos, neg = cache
    dpos = -g / (1 + np.exp(pos))
    dneg = g / (1 + np.exp(-neg))
    dv = dpos[:, None] * u + np.einsum("nk,nkd->nd", dneg, w)
    return dv, dpos[:, None] * v, dneg[:, :, None] * v[:, None, :]
"""

SYMLOG = """
import numpy as np

def forward(x):
    return np.sign(x) * np.log1p(np.abs(x))

def backward(g, x):
    return g / (1.0 + np.abs(x))
"""

SQUARE = """
import numpy as np

def forward(x):
    return (x ** 2).mean(axis=(2, 3))

def backward(g, x):
    n = x.shape[2] * x.shape[3]
    return 2 * x * g[:, :, None, None] / n
"""

HARD = """
import numpy as np

def forward(x):
    return x * np.clip(x + 3, 0, 6) / 6

def backward(g, x):
    d = np.where(x >= 3, 1.0, (2 * x + 3) / 6)
    return g * np.where(x <= -3, 0.0, d)
"""

DENSITY = """
import math
import numpy as np

def forward(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

def backward(g, x):
    slope = 1 / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return g * (below + x * slope * np.exp(-x * x / 2))
"""

CONVOLUTION = """
import numpy as np

def forward(x, w):
    n, y = x.shape[1], np.zeros_like(x)
    for j in range(len(w)):
        y[:, j:] += x[:, : n - j] * w[j]
    return y

def backward(g, x, w):
    n, dx, dw = x.shape[1], np.zeros_like(x), np.zeros_like(w)
    for j in range(len(w)):
        dx[:, : n - j] += g[:, j:] * w[j]
        dw[j] = (g[:, j:] * x[:, : n - j]).sum()
    return dx, dw
"""

SORTED = """
import numpy as np

def forward(x, w):
    return np.sort(x) * w

def backward(g, x, w):
    order = np.argsort(x)
    d = g * w
    return d[np.argsort(order)], g * x[order]
"""

FORCES = """
import numpy as np

def forward(p):
    i, j = np.triu_indices(len(p), 1)
    return 1 / ((p[i] - p[j]) ** 2).sum(axis=1)

def backward(g, p):
    i, j = np.triu_indices(len(p), 1)
    d = p[i] - p[j]
    f = (-2 * g / (d ** 2).sum(axis=1) ** 2)[:, None] * d
    dp = np.zeros_like(p)
    np.add.at(dp, i, f)
    np.add.at(dp, j, -f)
    return dp
"""

GUARDED = """
import numpy as np

EPS = 5e-3

def forward(x, gain):
    ms = (x * x).mean(axis=-1, keepdims=True)
    inv = (ms + EPS) ** -0.5
    return x * inv * gain, (x, gain, ms, inv)

def backward(g, cache):
    x, gain, ms, inv = cache
    d = g * gain
    dot = (d * x).mean(axis=-1, keepdims=True)
    return inv * (d - x * dot / (ms + EPS)), (g * x * inv).sum(axis=0)
"""

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    BATCH_NORM: ((4, 3, 5, 6), (3,), (3,)),
    HEADS: ((5, 6), (6, 6), (2, 4, 3)),
    GATED: ((2, 4, 3), (3, 3), (3, 3)),
    NOISE: ((4, 3), (4, 3), (4, 2, 3)),
    SYMLOG: ((4, 5),),
    SQUARE: ((2, 3, 4, 4),),
    HARD: ((5, 6),),
    DENSITY: ((4, 5),),
    CONVOLUTION: ((3, 7), (3,)),
    SORTED: ((7,), (7,)),
    FORCES: ((5, 3),),
    GUARDED: ((4, 5), (5,)),
}


def _report(text: str, folder: Path) -> Any:
    from chainrule import verify

    made = module(text, folder, next(_number))
    rng = np.random.default_rng(5)
    return verify.pair(made.forward, made.backward, *[rng.normal(size=s) for s in shapes_of(text)])


def shapes_of(text: str) -> tuple[tuple[int, ...], ...]:
    """Of the inputs of a text, which may have been changed."""
    return next(s for k, s in SHAPES.items() if k.split("def backward")[0] in text)


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        (BATCH_NORM, "m = xhat.size // xhat.shape[1]", "m = xhat.shape[0]"),
        (HEADS, "(g @ keys).transpose(1, 0, 2).reshape(t, d)", "(g @ keys).reshape(t, d)"),
        (GATED, "dz = dh * (h - n)", "dz = dh * (n - h)"),
        (NOISE, "dneg = g", "dneg = -g"),
        (SYMLOG, "(1.0 + np.abs(x))", "(1.0 + np.maximum(x, 0))"),
        (SQUARE, "n = x.shape[2] * x.shape[3]", "n = x.shape[3] ** 2"),
        (HARD, "x <= -3", "x <= 0"),
        (DENSITY, "slope = 1 / math.sqrt(2 * math.pi)", "slope = 0.4"),
        (CONVOLUTION, "dx[:, : n - j] += g[:, j:]", "dx[:, j:] += g[:, : n - j]"),
        (SORTED, "d[np.argsort(order)]", "d[order]"),
        (FORCES, "np.add.at(dp, i, f)\n    np.add.at(dp, j, -f)", "np.add.at(dp, i, f)"),
        (GUARDED, "(ms + EPS))", "ms)"),
    ],
)
def test_a_slip_is_undone_at_its_line(text: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert text.count(right) == 1
    report = _report(text.replace(right, wrong), tmp_path)
    assert report.findings
    for finding in report.findings:
        assert finding.place is not None and wrong in finding.place.text
        assert finding.correction is not None and finding.correction.rechecked
        assert finding.correction.after


@pytest.mark.parametrize("text", list(SHAPES))
def test_the_layer_is_right(text: str, tmp_path: Path) -> None:
    assert _report(text, tmp_path).ok


LOOKUP = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, ids):
        ctx.save_for_backward(ids)
        ctx.rows = len(table)
        return table[ids]

    @staticmethod
    def backward(ctx, g):
        (ids,) = ctx.saved_tensors
        grad = g.new_zeros(ctx.rows, g.shape[-1])
        grad.index_put_((ids,), g, accumulate=True)
        return grad, None
"""

PICKED = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ids):
        ctx.save_for_backward(ids)
        ctx.n = x.shape[-1]
        return x.gather(-1, ids)

    @staticmethod
    def backward(ctx, g):
        (ids,) = ctx.saved_tensors
        grad = g.new_zeros(*g.shape[:-1], ctx.n)
        return grad.scatter_add_(-1, ids, g), None
"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "ids"),
    [
        (LOOKUP, "(ids,), g, accumulate=True)", "(ids,), g)", [1, 0, 1, 3]),
        (PICKED, "scatter_add_(", "scatter_(", [[1, 1, 0], [2, 0, 2], [3, 3, 3], [0, 1, 2]]),
    ],
)
def test_equal_indices_are_added_up(
    text: str, right: str, wrong: str, ids: list[Any], tmp_path: Path
) -> None:
    torch = pytest.importorskip("torch")
    from chainrule import verify

    x = torch.randn(4, 5, dtype=torch.float64).requires_grad_()
    for spoiled in (False, True):
        made = module(text.replace(right, wrong) if spoiled else text, tmp_path, next(_number))
        report = verify.function(made.F, x, torch.tensor(ids))
        assert report.ok is not spoiled
    correction = report.findings[0].correction
    assert correction is not None and right in correction.after and correction.rechecked
