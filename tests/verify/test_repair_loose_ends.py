"""Values that nothing reads, axes put back, rows of their own lengths, sums over what belongs
together: each layer is right, and its slip is undone where it was made."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair_cases import module

pytestmark = sampled_file(one_in=12)


_number = itertools.count(9500)
RNG = np.random.default_rng(7)

ATTENTION = """
import numpy as np

def forward(q, k, v):
    s = q @ k.T / np.sqrt(q.shape[-1])
    s = np.where(np.triu(np.ones(s.shape, bool), 1), -np.inf, s)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    return p @ v, (q, k, v, p)

def backward(g, cache):
    q, k, v, p = cache
    dp = g @ v.T
    inner = (dp * p).sum(axis=-1, keepdims=True)
    ds = p * (dp - inner)
    ds = ds / np.sqrt(q.shape[-1])
    return ds @ k, ds.T @ q, p.T @ g
"""

CHANNELS_LAST = """
import numpy as np

def forward(x, w):
    n, c, h, b = x.shape
    cols = x.transpose(0, 2, 3, 1).reshape(-1, c)
    return (cols @ w).reshape(n, h, b, -1).transpose(0, 3, 1, 2), (x.shape, cols, w)

def backward(g, cache):
    (n, c, h, b), cols, w = cache
    flat = g.transpose(0, 2, 3, 1).reshape(-1, w.shape[1])
    return (flat @ w.T).reshape(n, h, b, c).transpose(0, 3, 1, 2), cols.T @ flat
"""

RAGGED = """
import numpy as np

def forward(x, lengths):
    live = np.arange(x.shape[1]) < lengths[:, None]
    return float(((x ** 2 * live[:, :, None]).sum(axis=(1, 2)) / lengths).mean())

def backward(g, x, lengths):
    d = np.zeros_like(x)
    for b in range(len(x)):
        n = lengths[b]
        for t in range(n):
            d[b, t] = 2 * x[b, t]
        d[b] *= g / (n * len(x))
    return d, None
"""

HUBER = """
import numpy as np

def forward(x, y, delta):
    e = x - y
    a = np.abs(e)
    return np.where(a <= delta, 0.5 * e * e, delta * (a - 0.5 * delta)).sum()

def backward(g, x, y, delta):
    e = x - y
    a = np.abs(e)
    d = g * np.clip(e, -delta, delta)
    ddelta = (g * np.where(a <= delta, 0.0, a - delta)).sum(axis=0)
    return d, -d, ddelta
"""

LOOPED = """
import numpy as np

def forward(x, w):
    mean = x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return (x - mean) * rstd * w, (x, w, mean, rstd)

def backward(g, cache):
    x, w, mean, rstd = cache
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for b in range(x.shape[0]):
        total, along = 0.0, 0.0
        for i in range(x.shape[1]):
            norm = (x[b, i] - mean[b, 0]) * rstd[b, 0]
            total += w[i] * g[b, i]
            along += w[i] * g[b, i] * norm
        share = total / x.shape[1]
        part = along / x.shape[1]
        for i in range(x.shape[1]):
            norm = (x[b, i] - mean[b, 0]) * rstd[b, 0]
            dw[i] += norm * g[b, i]
            dx[b, i] += (w[i] * g[b, i] - share - norm * part) * rstd[b, 0]
    return dx, dw
"""

GROUPED = """
import numpy as np

def forward(q, k):
    kk = np.repeat(k, q.shape[0] // k.shape[0], axis=0)
    return np.einsum("hid,hjd->hij", q, kk), (q, k, kk)

def backward(g, cache):
    q, k, kk = cache
    G, T, D = k.shape
    rep = q.shape[0] // G
    dk = np.einsum("hij,hid->hjd", g, q)
    return np.einsum("hij,hjd->hid", g, kk), dk.reshape(G, rep, T, D).sum(axis=1)
"""

ROOT = """
import numpy as np

def forward(x, eps):
    ms = np.mean(x * x, axis=-1, keepdims=True)
    return x / np.sqrt(ms + eps), (x, eps)

def backward(g, cache):
    x, eps = cache
    ms = np.mean(x * x, axis=-1, keepdims=True)
    inv = 1 / np.sqrt(ms + eps)
    along = np.mean(g * x, axis=-1, keepdims=True) / (ms + eps)
    return inv * (g - x * along)
"""

NUMPY: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    ATTENTION: ("p * (dp - inner)", "p * dp", tuple(RNG.normal(size=(3, 5, 4)))),
    CHANNELS_LAST: (
        "g.transpose(0, 2, 3, 1).reshape",
        "g.reshape",
        (RNG.normal(size=(2, 3, 4, 5)), RNG.normal(size=(3, 6))),
    ),
    RAGGED: ("range(n):", "range(x.shape[1]):", (RNG.normal(size=(3, 6, 2)), np.array([6, 2, 4]))),
    LOOPED: (
        "g[b, i] - share - norm * part",
        "g[b, i] - norm * part",
        (RNG.normal(size=(3, 5)), RNG.normal(size=5)),
    ),
    GROUPED: (
        "reshape(G, rep, T, D).sum(axis=1)",
        "reshape(rep, G, T, D).sum(axis=0)",
        (RNG.normal(size=(6, 4, 3)), RNG.normal(size=(2, 4, 3))),
    ),
    ROOT: ("/ (ms + eps)\n", "/ ms\n", (RNG.normal(size=(3, 5)), 0.02)),
    HUBER: (
        "a - delta)).sum(axis=0)",
        "a - delta))[0]",
        (*RNG.normal(size=(2, 6, 4)), RNG.uniform(0.6, 1.4, 4)),
    ),
}


NAMES = ("attention", "channels", "ragged", "looped", "grouped", "root", "huber")


@pytest.mark.parametrize("text", NUMPY, ids=NAMES)
@pytest.mark.parametrize("spoiled", [False, True], ids=["right", "wrong"])
def test_layers_of_arrays(text: str, spoiled: bool, tmp_path: Path) -> None:
    right, wrong, args = NUMPY[text]
    assert text.count(right) == 1
    made = module(text.replace(right, wrong) if spoiled else text, tmp_path, next(_number))
    report = verify.pair(made.forward, made.backward, *args)
    assert report.ok is not spoiled, str(report)
    for finding in report.findings:
        assert finding.place is not None and wrong.strip() in finding.place.text
        assert finding.correction is not None and finding.correction.rechecked
        assert finding.correction.after


EDGES = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, e, index):
        w = (e - e.max()).exp()
        total = w.new_zeros(int(index.max()) + 1).index_add_(0, index, w)
        p = w / total[index]
        ctx.save_for_backward(p, index)
        return p

    @staticmethod
    def backward(ctx, g):
        p, index = ctx.saved_tensors
        pg = p * g
        total = pg.new_zeros(int(index.max()) + 1).index_add_(0, index, pg)[index]
        return pg - p * total, None
"""

AFFINE = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s, b):
        ctx.save_for_backward(x, s)
        return x * s + b

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        gx = gs = gb = None
        if ctx.needs_input_grad[0]:
            gx = g * s
        if ctx.needs_input_grad[2]:
            gb = g.sum(0)
        if ctx.needs_input_grad[1]:
            gs = (g * x).sum(0)
        return gx, gs, gb
"""

MASKED = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, xs, u, lengths):
        h = xs.new_zeros(xs.shape[1], u.shape[0])
        hs = [h]
        for t in range(len(xs)):
            live = (t < lengths)[:, None]
            h = torch.where(live, torch.tanh(xs[t] + h @ u), h)
            hs.append(h)
        ctx.save_for_backward(u, lengths, torch.stack(hs))
        return h

    @staticmethod
    def backward(ctx, g):
        u, lengths, hs = ctx.saved_tensors
        dx, du = torch.zeros_like(hs[1:]), torch.zeros_like(u)
        for t in reversed(range(len(dx))):
            live = (t < lengths)[:, None]
            da = g * live * (1 - hs[t + 1] ** 2)
            dx[t] = da
            du += hs[t].T @ da
            g = da @ u.T + g * ~live
        return dx, du, None
"""

CLAMPED = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate, line = x[..., ::2], x[..., 1::2]
        ctx.save_for_backward(gate, line)
        return torch.sigmoid(gate) * line.clamp(-0.5, 0.5)

    @staticmethod
    def backward(ctx, g):
        gate, line = ctx.saved_tensors
        s = torch.sigmoid(gate)
        dx = g.new_empty(*g.shape[:-1], 2 * g.shape[-1])
        dx[..., ::2] = g * line.clamp(-0.5, 0.5) * s * (1 - s)
        dx[..., 1::2] = g * s * (abs(line) <= 0.5)
        return dx
"""

HALVED = """
import torch


def slope(a):
    return 2 * a * torch.cos(a * a)


class F(torch.autograd.Function):
    @staticmethod
    def forward(h):
        v, a = h.chunk(2, dim=-1)
        act = torch.sin(a * a)
        return v * act, act

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx, g, *unused):
        h, act = ctx.saved_tensors
        v, a = h.chunk(2, dim=-1)
        return torch.cat([g * act, g * v * slope(a)], dim=-1)
"""

TAPS = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        n = x.shape[-1] - 2
        y = sum(x[:, i : i + n] * w[i] for i in range(3)).relu()
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, w, y = ctx.saved_tensors
        n = g.shape[-1]
        d = g * (y > 0)
        dx, dw = torch.zeros_like(x), torch.zeros_like(w)
        for i in range(3):
            dw[i] = (d * x[:, i : i + n]).sum()
            dx[:, i : i + n] += d * w[i]
        return dx, dw
"""

STATE = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, u):
        c, kept = torch.zeros_like(x[0]), []
        hs = []
        for x_t in x:
            kept.append(c)
            c = 0.5 * c + torch.tanh(x_t * u)
            hs.append(c.sin())
        ctx.save_for_backward(x, u, torch.stack([*kept, c]))
        return torch.stack(hs)

    @staticmethod
    def backward(ctx, g):
        x, u, cs = ctx.saved_tensors
        dx, du, dc_next = torch.zeros_like(x), torch.zeros_like(u), torch.zeros_like(x[0])
        for t in reversed(range(len(x))):
            dc = dc_next
            dc = dc + g[t] * cs[t + 1].cos()
            dz = dc * (1 - torch.tanh(x[t] * u) ** 2)
            dx[t] = dz * u
            du += (dz * x[t]).sum(0)
            dc_next = 0.5 * dc
        return dx, du
"""

ROWS = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(table, index)
        return table[index] ** 2

    @staticmethod
    def backward(ctx, g):
        table, index = ctx.saved_tensors
        d = torch.zeros_like(table)
        d.index_add_(0, index, 2 * g * table[index])
        return d, None
"""

PENALTY = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        lse = x.logsumexp(1, keepdim=True)
        ctx.save_for_backward(x, lse)
        return lse.mean(), lse.square().mean()

    @staticmethod
    def backward(ctx, g_ce, g_z):
        x, lse = ctx.saved_tensors
        coef = g_ce + 2 * lse * g_z
        return coef * (x - lse).exp() / len(x)
"""

TORCH: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    HALVED: ("g * v * slope(a)", "g * v * slope(act)", (RNG.normal(size=(4, 4)),)),
    TAPS: ("d = g * (y > 0)", "d = g * (g > 0)", (RNG.normal(size=(4, 8)), RNG.normal(size=3))),
    STATE: ("dc = dc + g[t]", "dc = g[t]", (RNG.normal(size=(4, 2, 3)), RNG.normal(size=3))),
    ROWS: ("d.index_add_(", "d.index_add(", (RNG.normal(size=(5, 3)), np.array([0, 2, 2, 4]))),
    PENALTY: ("2 * lse * g_z", "2 * lse * g_ce", (RNG.normal(size=(4, 5)),)),
    EDGES: (
        "pg.new_zeros(int(index.max()) + 1).index_add_(0, index, pg)[index]",
        "pg.sum()",
        (RNG.normal(size=9), np.array([0, 1, 1, 2, 0, 2, 2, 3, 3])),
    ),
    AFFINE: (
        "        if ctx.needs_input_grad[1]:",
        "        elif ctx.needs_input_grad[1]:",
        (RNG.normal(size=(5, 3)), RNG.normal(size=3), RNG.normal(size=3)),
    ),
    MASKED: (
        "da @ u.T + g * ~live",
        "da @ u.T",
        (RNG.normal(size=(5, 3, 4)), RNG.normal(size=(4, 4)), np.array([5, 2, 4])),
    ),
    CLAMPED: ("(abs(line) <= 0.5)", "(line <= 0.5)", (RNG.normal(size=(6, 8)),)),
}


TORCH_NAMES = (
    *("halved", "taps", "state", "rows", "penalty"),
    *("edges", "affine", "masked", "clamped"),
)


@pytest.mark.parametrize("text", TORCH, ids=TORCH_NAMES)
@pytest.mark.parametrize("spoiled", [False, True], ids=["right", "wrong"])
def test_functions_of_tensors(text: str, spoiled: bool, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    right, wrong, args = TORCH[text]
    assert text.count(right) == 1
    made = module(text.replace(right, wrong) if spoiled else text, tmp_path, next(_number))
    given = [torch.tensor(a) for a in args]
    given = [t.requires_grad_() if t.is_floating_point() else t for t in given]
    report = verify.function(made.F, *given)
    assert report.ok is not spoiled, str(report)
    for finding in report.findings:
        assert finding.place is not None and wrong.strip() in finding.place.text
        assert finding.correction is not None and finding.correction.rechecked
        assert finding.correction.after


TWO_OUTPUTS = """
import torch


class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x.square().mean()

    @staticmethod
    def backward(ctx, g, scalar):
        (x,) = ctx.saved_tensors
        assert scalar.shape == ()
        return g * x.cos() + 2 * scalar * x / x.numel()
"""


def test_cotangents_of_numbers_are_numbers_in_every_layout(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    made = module(TWO_OUTPUTS, tmp_path, next(_number))
    x = torch.tensor(RNG.normal(size=(3, 4))).requires_grad_()
    assert verify.function(made.F, x).ok


PIECES = """
import numpy as np

def forward(x):
    y = np.empty_like(x)
    for i in range(0, len(x), 4):
        e = np.exp(x[i : i + 4])
        y[i : i + 4] = e / e.sum(axis=1, keepdims=True)
    return y, y

def backward(g, p):
    d = np.zeros_like(p)
    for k in range(ROWS):
        s = slice(4 * k, 4 * k + 4)
        d[s] = p[s] * (g[s] - (g[s] * p[s]).sum(axis=1, keepdims=True))
    return d
"""


@pytest.mark.parametrize(
    ("rows", "codes"), [("-(-len(p) // 4)", []), ("len(p) // 4", ["size"])], ids=["right", "wrong"]
)
def test_a_forward_in_pieces_is_made_for_all_lengths(
    rows: str, codes: list[str], tmp_path: Path
) -> None:
    m = module(PIECES.replace("ROWS", rows), tmp_path, next(_number))
    report = verify.pair(m.forward, m.backward, RNG.normal(size=(8, 5)))
    assert [f.name.code for f in report.findings if f.level == "error"] == codes


@pytest.mark.parametrize("inside", [True, False], ids=["in the backward", "in the forward"])
def test_the_line_at_which_digits_are_lost(inside: bool, tmp_path: Path) -> None:
    """A variance as the difference of two large numbers, in float32."""
    exact = "((x - mean) ** 2).mean(axis=-1, keepdims=True)"
    loses = "(x * x).mean(axis=-1, keepdims=True) - mean * mean"
    text = f"""
import numpy as np

def forward(x):
    mean = x.mean(axis=-1, keepdims=True)
    var = {exact}
    kept = {exact if inside else loses}
    return (x - mean) / np.sqrt(var + 1e-5), (x, kept)

def backward(g, cache):
    x, var = cache
    mean = x.mean(axis=-1, keepdims=True)
    {f"var = {loses}" if inside else ""}
    r = 1 / np.sqrt(var + 1e-5)
    h = (x - mean) * r
    return r * (g - g.mean(axis=-1, keepdims=True) - h * (g * h).mean(axis=-1, keepdims=True))
"""
    m = module(text, tmp_path, next(_number))
    x = (300 + RNG.normal(size=(4, 6))).astype(np.float32)
    (slip,) = verify.pair(m.forward, m.backward, x).findings
    assert slip.name.code == "precision"
    assert slip.place is not None and "x * x" in slip.place.text


class Regression:
    """Cannot be called, and its forward is called loss."""

    def __init__(self) -> None:
        self.w, self.dw = RNG.normal(size=3), np.zeros(3)

    def loss(self, x: Any, y: Any) -> float:
        self.x, self.e = x, x @ self.w - y
        return float(self.e @ self.e)

    def backward(self) -> None:
        self.dw = 2 * self.x.T @ self.e


def test_an_object_that_cannot_be_called() -> None:
    assert verify.pair(Regression(), RNG.normal(size=(5, 3)), RNG.normal(size=5)).ok
