"""Backwards whose mistake has one line and few names: what stands there, and what belongs there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chainrule.verify.subject import Array

OPS: dict[str, str] = {
    "bilinear": """
def forward(img, pts):
    y0, x0 = np.floor(pts[:, 0]).astype(int), np.floor(pts[:, 1]).astype(int)
    wy, wx = pts[:, 0] - y0, pts[:, 1] - x0
    top = (1 - wx) * img[:, y0, x0] + wx * img[:, y0, x0 + 1]
    low = (1 - wx) * img[:, y0 + 1, x0] + wx * img[:, y0 + 1, x0 + 1]
    return (1 - wy) * top + wy * low

def backward(g, img, pts):
    y0, x0 = np.floor(pts[:, 0]).astype(int), np.floor(pts[:, 1]).astype(int)
    wy, wx = pts[:, 0] - y0, pts[:, 1] - x0
    c = np.arange(len(img))[:, None]
    dimg = np.zeros_like(img)
    np.add.at(dimg, (c, y0, x0), g * (1 - wy) * (1 - wx))
    np.add.at(dimg, (c, y0, x0 + 1), g * (1 - wy) * wx)
    np.add.at(dimg, (c, y0 + 1, x0), g * wy * (1 - wx))
    np.add.at(dimg, (c, y0 + 1, x0 + 1), g * wy * wx)
    top = img[:, y0, x0 + 1] - img[:, y0, x0]
    low = img[:, y0 + 1, x0 + 1] - img[:, y0 + 1, x0]
    left = img[:, y0 + 1, x0] - img[:, y0, x0]
    right = img[:, y0 + 1, x0 + 1] - img[:, y0, x0 + 1]
    dy = (g * ((1 - wx) * left + wx * right)).sum(axis=0)
    dx = (g * ((1 - wy) * top + wy * low)).sum(axis=0)
    return dimg, np.stack([dy, dx], axis=1)
""",
    "circular": """
def forward(x, h):
    return np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(h), n=x.shape[-1])

def backward(g, x, h):
    n = x.shape[-1]
    gf, xf, hf = np.fft.rfft(g), np.fft.rfft(x), np.fft.rfft(h)
    dx = np.fft.irfft(gf * np.conj(hf), n=n)
    dh = np.fft.irfft(gf * np.conj(xf), n=n).sum(axis=0)
    return dx, dh
""",
    "running": """
def forward(x):
    return np.cumprod(x, axis=0)

def backward(g, x):
    y = np.cumprod(x, axis=0)
    down = np.flip(np.cumsum(np.flip(g * y, axis=0), axis=0), axis=0)
    return down / x
""",
    "decay": """
def forward(a, x):
    h, hs = np.zeros_like(x[0]), []
    for t in range(len(x)):
        h = a[t] * h + x[t]
        hs.append(h)
    return np.stack(hs), (a, hs)

def backward(g, cache):
    a, hs = cache
    da, dx = np.zeros_like(a), np.zeros_like(a)
    carry = np.zeros_like(a[0])
    for t in reversed(range(len(a))):
        dh = g[t] + carry
        before = hs[t - 1] if t > 0 else np.zeros_like(dh)
        dx[t] = dh
        da[t] = dh * before
        carry = dh * a[t]
    return da, dx
""",
    "mirrored": """
def forward(x, pad):
    return np.concatenate([x[..., 1 : pad + 1][..., ::-1], x], axis=-1)

def backward(g, x, pad):
    dx = g[..., pad:].copy()
    dx[..., 1 : pad + 1] += g[..., :pad][..., ::-1]
    return dx
""",
    "rows": """
def step(dy, x, w):
    return dy @ w.T, x.T @ dy, dy.sum(axis=0)

def forward(x, w, b):
    return x @ w + b

def backward(g, x, w, b):
    db = np.zeros_like(b)
    dw = np.zeros_like(w)
    dx = np.zeros_like(x)
    for i in range(len(x)):
        dxi, dwi, dbi = step(g[i : i + 1], x[i : i + 1], w)
        dx[i : i + 1] = dxi
        dw += dwi
        db += dbi
    return dx, dw, db
""",
    "ramp": """
def forward(x):
    return x * np.clip(x + 3, 0, 6) / 6

def backward(g, x):
    inside = (x > -3) & (x < 3)
    return g * np.where(inside, (2 * x + 3) / 6, np.where(x >= 3, 1.0, 0.0))
""",
    "windows": """
def forward(q, k, v):
    out, kept = np.zeros((len(q), v.shape[1])), []
    for t in range(len(q)):
        s = k[max(0, t - 2) : t + 1] @ q[t]
        p = np.exp(s - s.max())
        p = p / p.sum()
        out[t] = p @ v[max(0, t - 2) : t + 1]
        kept.append(p)
    return out, (q, k, v, kept)

def backward(g, cache):
    q, k, v, kept = cache
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for t in range(len(q)):
        at = slice(max(0, t - 2), t + 1)
        p = kept[t]
        dp = v[at] @ g[t]
        ds = p * (dp - p @ dp)
        dq[t] = ds @ k[at]
        dk[at] += np.outer(ds, q[t])
        dv[at] += np.outer(p, g[t])
    return dq, dk, dv
""",
    "peaks": """
def forward(x):
    y = x.reshape(len(x), -1, 2).max(axis=2)
    return y, (x, y)

def backward(g, cache):
    x, y = cache
    wide, top = np.repeat(g, 2, axis=1), np.repeat(y, 2, axis=1)
    return wide * (x == top)
""",
    "rotated": """
def forward(x):
    angle = np.arange(len(x))[:, None] * 0.6 ** np.arange(x.shape[1] // 2)
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[:, 0::2], x[:, 1::2]
    y = np.empty_like(x)
    y[:, 0::2] = a * c - b * s
    y[:, 1::2] = a * s + b * c
    return y, (c, s)

def backward(g, cache):
    c, s = cache
    a, b = g[:, 0::2], g[:, 1::2]
    dx = np.empty_like(g)
    dx[:, 0::2] = a * c + b * s
    dx[:, 1::2] = b * c - a * s
    return dx
""",
    "turned": """
def turn(x, by):
    a, b = x[..., 0], x[..., 1]
    return np.stack([a * np.cos(by) - b * np.sin(by), a * np.sin(by) + b * np.cos(by)], axis=-1)

def back(g, by):
    a, b = g[..., 0], g[..., 1]
    return np.stack([a * np.cos(by) + b * np.sin(by), b * np.cos(by) - a * np.sin(by)], axis=-1)

def forward(q, k):
    by = 0.3 * np.arange(len(q))
    return turn(q, by) @ turn(k, by).T

def backward(g, q, k):
    by = 0.3 * np.arange(len(q))
    return back(g @ turn(k, by), by), back(g.T @ turn(q, by), by)
""",
    "cubic": """
def bend(x):
    return x + 0.2113 * x * x * x

def slope(x):
    return 1.0 + 3 * 0.2113 * x * x

def forward(x, w):
    return np.sin(bend(x) @ w)

def backward(g, x, w):
    dz = g * np.cos(bend(x) @ w)
    dw = bend(x).T @ dz
    return (dz @ w.T) * slope(x), dw
""",
    "diffusion": """
def forward(u, k):
    flux = k * (u[:, 1:] - u[:, :-1])
    out = u.copy()
    out[:, :-1] += 0.1 * flux
    out[:, 1:] -= 0.1 * flux
    return out

def backward(g, u, k):
    dflux = 0.1 * (g[:, :-1] - g[:, 1:])
    du = g.copy()
    du[:, 1:] += (dflux * k)[:, :]
    du[:, :-1] -= dflux * k
    return du, (dflux * (u[:, 1:] - u[:, :-1])).sum(axis=0)
""",
    "ranked": """
def forward(x, order):
    s = np.take_along_axis(x, order, axis=1)
    return (s * np.cumsum(s, axis=1)).sum(axis=1)

def backward(g, x, order):
    s = np.take_along_axis(x, order, axis=1)
    d = g[:, None] * (np.cumsum(s, axis=1) + np.cumsum(s[:, ::-1], axis=1)[:, ::-1])
    out = np.empty_like(d)
    np.put_along_axis(out, order, d, axis=1)
    return out, None
""",
    "stepped": """
def forward(q, p, k):
    for _ in range(3):
        p = p - 0.1 * k * q
        q = q + 0.1 * p
    return q, p

def backward(gs, q, p, k):
    gq, gp = (a.astype(float) for a in gs)
    q, p = forward(q, p, k)
    gk = np.zeros_like(k)
    for _ in range(3):
        q = q - 0.1 * p
        gp = gp + 0.1 * gq
        p = p + 0.1 * k * q
        gk -= 0.1 * gp * q
        gq = gq - 0.1 * k * gp
    return gq, gp, gk
""",
    "survival": """
def forward(x):
    return np.cumprod(x, axis=1)

def backward(g, x):
    out = np.zeros_like(x)
    for i in range(x.shape[1]):
        rest = x.copy()
        rest[:, i] = 1
        out[:, i] = (g * np.cumprod(rest, axis=1))[:, i:].sum(axis=1)
    return out
""",
    "masked": """
HIDDEN = -np.inf

def softmax(q, k):
    s = np.where(np.tri(len(q), len(k), dtype=bool), q @ k.T, HIDDEN)
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def forward(q, k, v):
    return softmax(q, k) @ v

def backward(g, q, k, v):
    p = softmax(q, k)
    low = HIDDEN
    dp = np.einsum("td,sd->ts", g, v)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    return ds @ k, ds.T @ q, p.T @ g
""",
    "recomputed": """
WIDE = 0.05

def stats(x, eps=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    return mu, 1 / np.sqrt(((x - mu) ** 2).mean(axis=-1, keepdims=True) + eps)

def forward(x):
    mu, r = stats(x, WIDE)
    return (x - mu) * r

def backward(g, x):
    mu, r = stats(x, WIDE)
    y = (x - mu) * r
    return r * (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True))
""",
    "estimates": """
def forward(r, v):
    out, last = np.zeros(len(r)), 0.0
    for t in reversed(range(len(r))):
        last = r[t] + 0.9 * v[t + 1] - v[t] + 0.7 * last
        out[t] = last
    return out

def backward(g, r, v):
    dr, dv = np.zeros(len(r)), np.zeros(len(r) + 1)
    last = 0.0
    for t in range(len(r)):
        last = g[t] + 0.7 * last
        dr[t] = last
        dv[t] -= last
        dv[t + 1] += 0.9 * last
    return dr, dv
""",
    "gates": """
def forward(x, w):
    a = np.tensordot(x, w, 1)
    return np.tanh(a[:, 0]) * np.tanh(a[:, 1]) * a[:, 2] + a[:, 3]

def backward(g, x, w):
    a = np.tensordot(x, w, 1)
    t, u = np.tanh(a[:, 0]), np.tanh(a[:, 1])
    rows = [g * (1 - t * t) * u * a[:, 2], g * t * (1 - u * u) * a[:, 2], g * t * u, g]
    da = np.stack(rows, axis=1)
    return np.einsum("bkh,dkh->bd", da, w), np.einsum("bd,bkh->dkh", x, da)
""",
    "trapezoid": """
def forward(f, w):
    p = f * w
    return p.sum(axis=-1) - 0.5 * (p[..., 0] + p[..., -1])

def backward(g, f, w):
    quad = np.ones(f.shape[-1])
    quad[[0, -1]] *= 0.5
    each = g[..., None] * quad
    return each * w, (each * f).sum(axis=0)
""",
    "magnitudes": """
def forward(x, p):
    return np.abs(x) ** p

def backward(g, x, p):
    y = np.abs(x) ** p
    dx = g * p * y / np.abs(x) * np.sign(x)
    return dx, (g * y * np.log(np.abs(x))).sum()
""",
    "factored": """
def forward(s):
    return np.linalg.cholesky((s + s.T) / 2)

def backward(g, s):
    low = np.linalg.cholesky((s + s.T) / 2)
    p = np.tril(low.T @ g)
    p = p - p * np.eye(p.shape[-1]) / 2
    inner = np.linalg.solve(low.T, np.linalg.solve(low.T, p.T).T)
    return (inner + inner.T) / 2
""",
    "normaliser": """
def forward(s, v):
    top = s.max(axis=-1, keepdims=True)
    total = np.log(np.exp(s - top).sum(axis=-1)) + top[..., 0]
    p = np.exp(s - total[..., None])
    return p @ v, total

def backward(gs, s, v):
    g, gt = gs
    top = s.max(axis=-1, keepdims=True)
    p = np.exp(s - top)
    p = p / p.sum(axis=-1, keepdims=True)
    dp = g @ v.T
    delta = (dp * p).sum(axis=-1, keepdims=True) - gt[..., None]
    return p * (dp - delta), p.T @ g
""",
}
"""Forward and backward, as they should be."""


def _draw(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _points(n: int) -> Array:
    return np.random.default_rng(n).uniform(0.2, 3.8, size=(n, 2))


ARGUMENTS: dict[str, tuple[object, ...]] = {
    "bilinear": (_draw(2, 5, 5), _points(4)),
    "circular": (_draw(3, 8), _draw(8)),
    "running": (_draw(4, 4),),
    "decay": (np.abs(_draw(5, 3)), _draw(6, 3)[:5]),
    "mirrored": (_draw(3, 7), 2),
    "rows": (_draw(4, 3), _draw(3, 5), _draw(5)),
    "ramp": (np.array([-4.2, -2.4, -1.1, -0.3, 0.6, 1.7, 2.9, 3.8]),),
    "windows": (_draw(6, 5), _draw(7, 5)[:6], _draw(6, 2)),
    "peaks": (_draw(3, 8),),
    "rotated": (_draw(5, 6),),
    "turned": (_draw(6, 2)[:4], _draw(5, 2)[:4]),
    "cubic": (_draw(4, 3), _draw(3, 5)),
    "diffusion": (_draw(3, 6), np.abs(_draw(5))),
    "ranked": (_draw(4, 6), np.argsort(_draw(4, 6), axis=1)),
    "stepped": (_draw(5), _draw(5), 1 + np.abs(_draw(5))),
    "survival": (0.4 + np.abs(_draw(3, 5)),),
    "masked": (_draw(4, 3), _draw(5, 3)[:4], _draw(6, 2)[:4]),
    "recomputed": (_draw(3, 5),),
    "estimates": (_draw(7), _draw(8)),
    "gates": (_draw(5, 3), _draw(3, 4, 4)),
    "trapezoid": (_draw(3, 7), _draw(7)),
    "magnitudes": (0.3 + np.abs(_draw(7)), np.array(1.6)),
    "factored": (_draw(4, 9) @ _draw(4, 9).T / 9 + np.eye(4),),
    "normaliser": (_draw(3, 5), _draw(5, 4)),
}


@dataclass(frozen=True)
class Misplaced:
    """One mistake: what belongs there, what stands there, and what it may be called."""

    op: str
    right: str
    wrong: str
    codes: tuple[str, ...]
    repaired: bool = True
    """Whether changed code is to be found."""


MISTAKES: list[Misplaced] = [
    Misplaced("bilinear", "g * (1 - wy) * wx)", "g * wy * (1 - wx))", ("wrong_value",)),
    Misplaced("bilinear", "(c, y0 + 1, x0), g", "(c, y0 + 1, x0 + 1), g", ("wrong_value",)),
    Misplaced("bilinear", "np.stack([dy, dx]", "np.stack([dx, dy]", ("wrong_value",)),
    Misplaced("circular", "gf * np.conj(hf)", "gf * hf", ("transposed",)),
    Misplaced("circular", "gf * np.conj(xf)", "np.conj(gf) * xf", ("transposed", "region")),
    Misplaced(
        "running",
        "np.flip(np.cumsum(np.flip(g * y, axis=0), axis=0), axis=0)",
        "np.flip(np.cumsum(np.flip(g * y, axis=1), axis=1), axis=1)",
        ("wrong_axis",),
    ),
    Misplaced("decay", "carry = dh * a[t]", "carry = dh", ("wrong_value", "missing_term")),
    Misplaced(
        "decay", "        dh = g", "        carry = 0 * carry\n        dh = g", ("overwritten",)
    ),
    Misplaced("mirrored", "g[..., :pad][..., ::-1]", "g[..., :pad]", ("wrong_value", "region")),
    Misplaced("rows", "x.T @ dy, dy.sum(axis=0)", "x.T @ dy, dy.sum(axis=0) / 2", ("factor",)),
    Misplaced("rows", "        db += dbi\n", "", ("dropped", "missing_term")),
    Misplaced("ramp", "(x > -3)", "(x > 0)", ("one_sided", "region")),
    Misplaced("windows", "p * (dp - p @ dp)", "p * dp", ("wrong_value", "missing_term"), False),
    Misplaced("rotated", "b * c - a * s", "b * c + a * s", ("sign",)),
    Misplaced(
        "rotated",
        "a * c + b * s\n    dx[:, 1::2] = b * c - a * s",
        "a * c - b * s\n    dx[:, 1::2] = b * c + a * s",
        ("transposed", "sign"),
    ),
    Misplaced("turned", "b * np.cos(by) - a", "b * np.cos(by) + a", ("sign",)),
    Misplaced("cubic", "3 * 0.2113", "0.62", ("wrong_value", "factor")),
    Misplaced(
        "diffusion",
        "du[:, 1:] += (dflux * k)[:, :]",
        "du[:, 1:-1] += (dflux * k)[:, :-1]",
        ("region", "missing_term"),
    ),
    Misplaced("trapezoid", "quad[[0, -1]]", "quad[0]", ("region", "missing_term")),
    Misplaced("magnitudes", " * np.sign(x)", "", ("one_sided",)),
    Misplaced("factored", "    p = p - p * np.eye(p.shape[-1]) / 2\n", "", ("missing_term",)),
    Misplaced(
        "masked",
        "p * (dp - (dp * p).sum(axis=-1, keepdims=True))",
        "p * dp",
        ("missing_term",),
    ),
    Misplaced("recomputed", "stats(x, WIDE)\n    y", "stats(x)\n    y", ("wrong_value", "factor")),
    Misplaced("normaliser", " - gt[..., None]", "", ("missing_term",)),
]
