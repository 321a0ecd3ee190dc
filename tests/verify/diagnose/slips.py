"""Right NumPy backwards by op, and slips in them: what is replaced by what, and its name.

A backward is kept as text, so that a slip is an edit of it. `*` among the names: any name will do
as long as the mistake is found; a slip that changes nothing at all is not in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Op:
    name: str
    forward: str
    backward: str
    args: Callable[[np.random.Generator], tuple[Any, ...]]
    slips: tuple[tuple[str, str, str], ...]
    """Text, its replacement, names that are right (the first is expected first)."""


@dataclass(frozen=True)
class Slip:
    op: Op
    before: str
    after: str
    codes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.op.name}: {self.before} -> {self.after}"

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        assert self.before in self.op.backward, f"{self.op.name} has no {self.before}"
        return compiled(self.op.forward, self.op.backward.replace(self.before, self.after, 1))


def compiled(forward: str, backward: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    scope: dict[str, Any] = {"np": np}
    exec(HELPERS + forward, scope)
    exec(backward, scope)
    return scope["forward"], scope["backward"]


HELPERS = """
def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
"""


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: tuple([rng.normal(size=s) for s in shapes])


OPS = (
    Op(
        "linear",
        "def forward(x, W, b):\n    return x @ W + b\n",
        """
def backward(g, x, W, b):
    dx = g @ W.T
    dW = x.T @ g
    db = g.sum(axis=0)
    return dx, dW, db
""",
        normal((4, 3), (3, 3), (3,)),
        (
            ("g @ W.T", "g @ W", "transposed"),
            ("g @ W.T", "-g @ W.T", "sign"),
            ("x.T @ g", "x.T @ g / len(x)", "factor"),
            ("x.T @ g", "(x.T @ g).T", "transposed"),
            ("x.T @ g", "x[:1].T @ g[:1]", "overwritten missing_term region"),
            ("g.sum(axis=0)", "g", "not_summed"),
            ("g.sum(axis=0)", "g[0]", "not_summed overwritten"),
            ("g.sum(axis=0)", "g[-1]", "overwritten not_summed"),
            ("g.sum(axis=0)", "g.mean(axis=0)", "factor"),
            ("g.sum(axis=0)", "g.sum(axis=0) * 2", "factor"),
            ("g.sum(axis=0)", "np.zeros_like(b)", "dropped"),
            ("g.sum(axis=0)", "None", "dropped"),
            ("x.T @ g", "x.T @ np.ones_like(g)", "ignores_cotangent"),
            ("x.T @ g", "x.T @ (g * g)", "not_linear"),
            ("x.T @ g", "np.where(np.arange(3) < 2, x.T @ g, 0)", "region"),
            ("return dx, dW, db", "return dx, dW, db * 4", "factor"),
        ),
    ),
    Op(
        "square_bias",
        "def forward(x, b):\n    return x * 2 + b\n",
        "def backward(g, x, b):\n    return 2 * g, g.sum(axis=0)\n",
        normal((3, 3), (3,)),
        (
            ("g.sum(axis=0)", "g.sum(axis=1)", "wrong_axis"),
            ("2 * g", "g", "factor"),
            ("2 * g", "2 * g.T", "transposed"),
            ("2 * g", "2 * g.sum() * np.ones_like(x)", "wrong_axis extra_term"),
        ),
    ),
    Op(
        "sigmoid",
        "def forward(x):\n    return 1 / (1 + np.exp(-x))\n",
        """
def backward(g, x):
    y = 1 / (1 + np.exp(-x))
    return g * y * (1 - y)
""",
        normal((4, 5)),
        (
            ("y * (1 - y)", "x * (1 - x)", "wrong_value *"),
            ("y * (1 - y)", "y * (1 + y)", "sign *"),
            ("y * (1 - y)", "y", "missing_term wrong_value *"),
            ("y * (1 - y)", "(1 - y)", "missing_term wrong_value *"),
            ("np.exp(-x)", "np.exp(-1 / (1 + np.exp(-x)))", "wrong_value *"),
            ("np.exp(-x)", "np.exp(-2 * x)", "wrong_value stale *"),
            ("g * y", "y", "ignores_cotangent"),
            ("g * y * (1 - y)", "np.where(x > 0, g * y * (1 - y), 0)", "one_sided"),
        ),
    ),
    Op(
        "tanh",
        "def forward(x):\n    return np.tanh(x)\n",
        "def backward(g, x):\n    y = np.tanh(x)\n    return g * (1 - y * y)\n",
        normal((4, 3)),
        (
            ("1 - y * y", "1 - x * x", "wrong_value *"),
            ("1 - y * y", "1 + y * y", "sign *"),
            ("1 - y * y", "1 - y", "wrong_value *"),
            ("1 - y * y", "y * y", "missing_term wrong_value *"),
            ("(1 - y * y)", "(1 - y * y) / x.shape[0]", "factor"),
        ),
    ),
    Op(
        "softmax",
        "def forward(x):\n    return softmax(x)\n",
        """
def backward(g, x):
    y = np.exp(x - x.max(axis=-1, keepdims=True))
    y = y / y.sum(axis=-1, keepdims=True)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
""",
        normal((4, 5)),
        (
            ("(g - (g * y).sum(axis=-1, keepdims=True))", "g", "missing_term"),
            ("(g - (g * y)", "(g + (g * y)", "sign"),
            (
                "(g * y).sum(axis=-1, keepdims=True))",
                "(g * y).sum(axis=0, keepdims=True))",
                "wrong_axis",
            ),
            ("(g * y).sum(axis=-1, keepdims=True))", "(g * y).sum())", "wrong_axis"),
            (
                "(g * y).sum(axis=-1, keepdims=True))",
                "(g * y).mean(axis=-1, keepdims=True))",
                "factor",
            ),
            (
                "(g * y).sum(axis=-1, keepdims=True))",
                "g.sum(axis=-1, keepdims=True))",
                "wrong_value missing_term *",
            ),
            ("return y", "return -y", "sign"),
            ("return y", "return x", "wrong_value *"),
        ),
    ),
    Op(
        "layer_norm",
        """
def forward(x, w, b):
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    return (x - mu) / np.sqrt(var + 1e-5) * w + b
""",
        """
def backward(g, x, w, b):
    mu = x.mean(axis=-1, keepdims=True)
    s = 1 / np.sqrt(((x - mu) ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    n = (x - mu) * s
    dn = g * w
    m = dn.mean(axis=-1, keepdims=True)
    v = (dn * n).mean(axis=-1, keepdims=True)
    dx = s * (dn - m - n * v)
    return dx, (g * n).sum(axis=0), g.sum(axis=0)
""",
        normal((4, 5), (5,), (5,)),
        (
            ("dn - m - n * v", "dn - n * v", "missing_term *"),
            ("dn - m - n * v", "dn - m", "missing_term *"),
            ("dn - m - n * v", "dn", "missing_term"),
            ("dn - m - n * v", "dn - m + n * v", "sign *"),
            ("dn - m - n * v", "dn + m - n * v", "sign *"),
            ("dn = g * w", "dn = g", "wrong_value missing_term *"),
            ("dx = s * ", "dx = ", "wrong_value factor missing_term *"),
            ("dx = s * ", "dx = s**2 * ", "wrong_value factor *"),
            ("dn.mean(axis=-1", "dn.sum(axis=-1", "factor *"),
            ("dn.mean(axis=-1", "dn.mean(axis=0", "wrong_axis"),
            ("(g * n).sum(axis=0)", "(g * x).sum(axis=0)", "wrong_value missing_term *"),
            ("(g * n).sum(axis=0)", "(g * n).mean(axis=0)", "factor"),
            ("(g * n).sum(axis=0)", "(g * n)[-1]", "overwritten not_summed"),
        ),
    ),
    Op(
        "rms_norm",
        """
def forward(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * w
""",
        """
def backward(g, x, w):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    n, dn = x * r, g * w
    dx = r * (dn - n * (dn * n).mean(axis=-1, keepdims=True))
    return dx, (g * n).sum(axis=0)
""",
        normal((4, 5), (5,)),
        (
            ("(dn - n * (dn * n).mean(axis=-1, keepdims=True))", "dn", "missing_term"),
            ("dn - n", "dn + n", "sign"),
            ("(dn * n).mean(", "(dn * n).sum(", "factor"),
            ("(dn * n).mean(axis=-1", "(dn * n).mean(axis=0", "wrong_axis"),
            ("(dn * n).mean(axis=-1, keepdims=True)", "(dn * n).mean()", "wrong_axis"),
            ("g * w\n", "g\n", "wrong_value missing_term *"),
        ),
    ),
    Op(
        "batch_norm",
        """
def forward(x, w, b):
    mu, var = x.mean(axis=0), x.var(axis=0)
    return (x - mu) / np.sqrt(var + 1e-5) * w + b
""",
        """
def backward(g, x, w, b):
    s = 1 / np.sqrt(x.var(axis=0) + 1e-5)
    n, dn = (x - x.mean(axis=0)) * s, g * w
    dx = s * (dn - dn.mean(axis=0) - n * (dn * n).mean(axis=0))
    return dx, (g * n).sum(axis=0), g.sum(axis=0)
""",
        normal((6, 4), (4,), (4,)),
        (
            ("dn - dn.mean(axis=0) - n", "dn - n", "missing_term *"),
            (" - n * (dn * n).mean(axis=0)", "", "missing_term *"),
            (
                "dx = s * (dn - dn.mean(axis=0) - n * (dn * n).mean(axis=0))",
                "dx = s * dn",
                "missing_term",
            ),
            ("(dn * n).mean(axis=0)", "(dn * n).sum(axis=0)", "factor *"),
            ("g.sum(axis=0)\n", "g.mean(axis=0)\n", "factor"),
            ("dx = s", "dx = -s", "sign"),
        ),
    ),
    Op(
        "attention",
        """
def forward(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    return softmax(s) @ v
""",
        """
def backward(g, q, k, v):
    d = np.sqrt(q.shape[-1])
    s = q @ np.swapaxes(k, -1, -2) / d
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    dv = np.swapaxes(p, -1, -2) @ g
    dp = g @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True))
    dq = ds @ k / d
    dk = np.swapaxes(ds, -1, -2) @ q / d
    return dq, dk, dv
""",
        normal((2, 4, 3), (2, 4, 3), (2, 4, 3)),
        (
            ("ds @ k / d", "ds @ k", "factor"),
            ("ds @ k / d", "ds @ k / d**2", "factor"),
            ("np.swapaxes(ds, -1, -2) @ q / d", "np.swapaxes(ds, -1, -2) @ q", "factor"),
            ("(dp - (dp * p).sum(axis=-1, keepdims=True))", "dp", "missing_term *"),
            ("np.swapaxes(p, -1, -2) @ g", "p @ g", "transposed"),
            ("np.swapaxes(ds, -1, -2) @ q", "ds @ q", "transposed *"),
            ("ds @ k", "np.swapaxes(ds, -1, -2) @ k", "transposed *"),
            ("return dq, dk, dv", "return dk, dq, dv", "wrong_input"),
            ("return dq, dk, dv", "return dq, dk, dv * 0", "dropped"),
            ("ds @ k", "ds @ q", "wrong_value wrong_input *"),
            ("(dp - (dp", "(dp + (dp", "sign *"),
            ("sum(axis=-1, keepdims=True))", "sum(axis=-2, keepdims=True))", "wrong_axis"),
        ),
    ),
    Op(
        "cross_entropy",
        """
def forward(z):
    n, t = len(z), np.arange(len(z)) % z.shape[1]
    m = z.max(axis=1, keepdims=True)
    lse = np.log(np.exp(z - m).sum(axis=1)) + m[:, 0]
    return (lse - z[np.arange(n), t]).mean()
""",
        """
def backward(g, z):
    n, t = len(z), np.arange(len(z)) % z.shape[1]
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(n), t] -= 1
    return g * p / n
""",
        normal((6, 4)),
        (
            ("g * p / n", "g * p", "factor"),
            ("g * p / n", "-g * p / n", "sign"),
            ("g * p / n", "p / n", "ignores_cotangent"),
            ("p[np.arange(n), t] -= 1", "pass", "missing_term *"),
            ("-= 1", "-= 2", "factor extra_term *"),
            ("-= 1", "+= 1", "sign *"),
            ("/ n", "/ p.size", "factor"),
            (
                "z.max(axis=1, keepdims=True))\n    p /= p.sum(axis=1",
                "z.max(axis=1, keepdims=True))\n    p /= p.sum(axis=0",
                "wrong_axis *",
            ),
        ),
    ),
    Op(
        "mse",
        "def forward(a, b):\n    return ((a - b) ** 2).mean()\n",
        "def backward(g, a, b):\n    d = g * 2 * (a - b) / a.size\n    return d, -d\n",
        normal((3, 4), (3, 4)),
        (
            ("g * 2 *", "g *", "factor"),
            ("/ a.size", "", "factor"),
            ("/ a.size", "/ len(a)", "factor"),
            ("d, -d", "d, d", "sign"),
            ("d, -d", "-d, d", "sign wrong_input"),
            ("d, -d", "d, None", "dropped"),
            ("2 * (a - b)", "2 * np.abs(a - b)", "one_sided sign"),
        ),
    ),
    Op(
        "gelu",
        """
def forward(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
""",
        """
def backward(g, x):
    c = 0.7978845608
    t = np.tanh(c * (x + 0.044715 * x**3))
    a = 0.5 * (1 + t)
    b = 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x**2)
    return g * (a + b)
""",
        normal((4, 5)),
        (
            ("a + b", "a", "missing_term overwritten *"),
            ("a + b", "b", "missing_term overwritten *"),
            ("a + b", "a - b", "sign *"),
            ("1 + 3 * 0.044715", "1 + 0.044715", "factor missing_term *"),
            ("1 - t * t", "1 - t", "wrong_value *"),
            ("b = 0.5 * x", "b = x", "factor extra_term *"),
        ),
    ),
    Op(
        "rnn",
        """
def forward(x, W, U):
    h = np.zeros((x.shape[1], W.shape[1]))
    for t in range(x.shape[0]):
        h = np.tanh(x[t] @ W + h @ U)
    return h
""",
        """
def backward(g, x, W, U):
    hs = [np.zeros((x.shape[1], W.shape[1]))]
    for t in range(len(x)):
        hs.append(np.tanh(x[t] @ W + hs[-1] @ U))
    dx, dW, dU = np.zeros_like(x), np.zeros_like(W), np.zeros_like(U)
    for t in reversed(range(len(x))):
        a = g * (1 - hs[t + 1] ** 2)
        dx[t] = a @ W.T
        dW += x[t].T @ a
        dU += hs[t].T @ a
        g = a @ U.T
    return dx, dW, dU
""",
        normal((3, 2, 4), (4, 3), (3, 3)),
        (
            ("dW += x", "dW = x", "overwritten *"),
            ("dU += hs[t]", "dU = hs[t]", "overwritten dropped"),
            ("g = a @ U.T", "g = a @ U", "transposed *"),
            ("g = a @ U.T", "pass", "*"),
            ("g = a @ U.T", "g = -a @ U.T", "sign *"),
            ("g = a @ U.T", "g = 2 * a @ U.T", "factor *"),
            ("g = a @ U.T", "g = 0 * g", "missing_term overwritten *"),
            ("1 - hs[t + 1] ** 2", "1 + hs[t + 1] ** 2", "sign *"),
            ("dU += hs[t]", "dU += hs[t + 1]", "wrong_value *"),
            ("return dx, dW, dU", "return dx, dW / len(x), dU", "factor"),
        ),
    ),
    Op(
        "embedding",
        "def forward(E):\n    return E[np.array([0, 2, 2, 1, 0, 2])]\n",
        """
def backward(g, E):
    dE = np.zeros_like(E)
    for n, i in enumerate([0, 2, 2, 1, 0, 2]):
        dE[i] += g[n]
    return dE
""",
        normal((4, 3)),
        (
            ("dE[i] += g[n]", "dE[i] = g[n]", "overwritten"),
            ("dE[i] += g[n]", "dE[i] -= g[n]", "sign"),
            ("dE[i] += g[n]", "dE[i] += g[n] / [2, 1, 3][i]", "factor region"),
            ("dE[i] += g[n]", "dE[n % len(E)] += g[n]", "*"),
            ("[0, 2, 2, 1, 0, 2]", "[0, 2, 2, 1, 0]", "region overwritten missing_term"),
        ),
    ),
    Op(
        "conv1d",
        """
def forward(x, w):
    n = x.shape[-1] - w.shape[-1] + 1
    cols = [np.einsum('bci,oci->bo', x[:, :, i:i + w.shape[-1]], w) for i in range(n)]
    return np.stack(cols, axis=-1)
""",
        """
def backward(g, x, w):
    dx, dw, k = np.zeros_like(x), np.zeros_like(w), w.shape[-1]
    for i in range(g.shape[-1]):
        dx[:, :, i:i + k] += np.einsum('bo,oci->bci', g[:, :, i], w)
        dw += np.einsum('bo,bci->oci', g[:, :, i], x[:, :, i:i + k])
    return dx, dw
""",
        normal((2, 3, 6), (4, 3, 3)),
        (
            ("dx[:, :, i:i + k] += np", "dx[:, :, i:i + k] = np", "overwritten"),
            ("dw += np", "dw = np", "overwritten"),
            ("g[:, :, i], w)", "g[:, :, i], w[:, :, ::-1])", "transposed *"),
            ("range(g.shape[-1])", "range(g.shape[-1] - 1)", "region"),
            ("return dx, dw", "return dx, dw / len(x)", "factor"),
        ),
    ),
    Op(
        "max_pool",
        """
def forward(x):
    return np.maximum(np.maximum(x[:, :-2], x[:, 1:-1]), x[:, 2:])
""",
        """
def backward(g, x):
    dx = np.zeros_like(x)
    for r in range(g.shape[0]):
        for i in range(g.shape[1]):
            dx[r, i + np.argmax(x[r, i:i + 3])] += g[r, i]
    return dx
""",
        normal((3, 7)),
        (
            ("+= g", "= g", "overwritten"),
            ("argmax", "argmin", "*"),
            (
                "dx[r, i + np.argmax(x[r, i:i + 3])] += g[r, i]",
                "dx[r, i:i + 3] += g[r, i] / 3",
                "*",
            ),
        ),
    ),
    Op(
        "div",
        "def forward(a, b):\n    return a / b\n",
        "def backward(g, a, b):\n    return g / b, -g * a / b**2\n",
        lambda rng: (rng.normal(size=(3, 4)), rng.uniform(0.5, 2, size=(3, 4))),
        (
            ("-g * a / b**2", "g * a / b**2", "sign"),
            ("-g * a / b**2", "-g * a / b", "wrong_value *"),
            ("g / b, ", "g * b, ", "wrong_value *"),
            ("-g * a / b**2", "-g / b**2", "wrong_value missing_term *"),
            ("g / b, -g * a / b**2", "-g * a / b**2, g / b", "wrong_input"),
            ("g / b, ", "g / a, ", "wrong_value *"),
        ),
    ),
    Op(
        "sqrt",
        "def forward(x):\n    return np.sqrt(x)\n",
        "def backward(g, x):\n    y = np.sqrt(x)\n    return g / (2 * y)\n",
        lambda rng: (rng.uniform(0.5, 3, size=(3, 4)),),
        (
            ("g / (2 * y)", "g / y", "factor"),
            ("g / (2 * y)", "g / (2 * x)", "wrong_value *"),
            ("g / (2 * y)", "g * (2 * y)", "wrong_value factor *"),
        ),
    ),
    Op(
        "relu",
        "def forward(x):\n    return np.maximum(x, 0)\n",
        "def backward(g, x):\n    return g * (x > 0)\n",
        lambda rng: (3 * rng.normal(size=(4, 5)),),
        (
            ("g * (x > 0)", "g", "one_sided"),
            ("(x > 0)", "(x < 0)", "one_sided *"),
            ("(x > 0)", "(x > 1)", "region one_sided"),
            ("(x > 0)", "(g > 0)", "not_linear *"),
        ),
    ),
    Op(
        "leaky_relu",
        "def forward(x):\n    return np.where(x > 0, x, 0.1 * x)\n",
        "def backward(g, x):\n    return np.where(x > 0, g, 0.1 * g)\n",
        normal((4, 5)),
        (
            ("0.1 * g", "0 * g", "one_sided"),
            ("0.1 * g", "-0.1 * g", "one_sided sign"),
            ("0.1 * g", "0.01 * g", "one_sided factor"),
            ("x > 0", "x < 0", "one_sided *"),
        ),
    ),
    Op(
        "mean",
        "def forward(x):\n    return x.mean(axis=1)\n",
        "def backward(g, x):\n    return np.repeat(g[:, None], x.shape[1], axis=1) / x.shape[1]\n",
        normal((4, 4)),
        (
            (" / x.shape[1]", "", "factor"),
            (" / x.shape[1]", " / x.size", "factor"),
            (
                "np.repeat(g[:, None], x.shape[1], axis=1)",
                "np.repeat(g[None], len(g), axis=0)",
                "wrong_axis",
            ),
            (" / x.shape[1]", " / 4", "size"),
        ),
    ),
    Op(
        "residual",
        "def forward(x, W):\n    return x + np.tanh(x @ W)\n",
        """
def backward(g, x, W):
    a = g * (1 - np.tanh(x @ W) ** 2)
    dx = g
    dx = dx + a @ W.T
    return dx, x.T @ a
""",
        normal((3, 4), (4, 4)),
        (
            ("dx = dx + a", "dx = a", "overwritten missing_term *"),
            ("dx = dx + a @ W.T", "pass", "missing_term overwritten"),
            ("dx = dx + a", "dx = dx - a", "sign"),
            ("dx = dx + a", "dx = 2 * dx + a", "factor extra_term *"),
            ("dx = dx + a @ W.T", "dx = dx + a @ W", "transposed *"),
        ),
    ),
    Op(
        "layer",
        "def forward(x, W):\n    return np.tanh(x @ W)\n",
        """
def backward(g, x, W):
    a = g * (1 - np.tanh(x @ W) ** 2)
    return a @ W.T, x.T @ a
""",
        normal((3, 4), (4, 4)),
        (
            ("a @ W.T", "a @ W", "transposed *"),
            ("x.T @ a", "(x.T @ a).T", "transposed"),
            ("x.T @ a", "x.T @ g", "wrong_value missing_term *"),
        ),
    ),
    Op(
        "log_softmax",
        """
def forward(z):
    e = z - z.max(axis=-1, keepdims=True)
    return e - np.log(np.exp(e).sum(axis=-1, keepdims=True))
""",
        """
def backward(g, z):
    p = np.exp(z - z.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return g - p * g.sum(axis=-1, keepdims=True)
""",
        normal((4, 5)),
        (
            ("g - p * g.sum(axis=-1, keepdims=True)", "g", "missing_term"),
            ("g - p", "g + p", "sign"),
            ("g - p", "g - z", "wrong_value *"),
            ("g.sum(axis=-1, keepdims=True)", "g.mean(axis=-1, keepdims=True)", "factor"),
            ("g.sum(axis=-1, keepdims=True)", "g.sum(axis=0, keepdims=True)", "wrong_axis"),
        ),
    ),
    Op(
        "scale",
        "def forward(x, s):\n    return x * s\n",
        "def backward(g, x, s):\n    return g * s, (g * x).sum(axis=0)\n",
        normal((5, 3), (3,)),
        (
            ("(g * x).sum(axis=0)", "(g * x)", "not_summed"),
            ("(g * x).sum(axis=0)", "g.sum(axis=0)", "wrong_value missing_term *"),
            ("(g * x).sum(axis=0)", "(g * x).mean(axis=0)", "factor"),
            ("g * s", "g * x", "wrong_value *"),
            ("g * s", "g.ravel(order='K').reshape(g.shape) * s", "contiguity"),
        ),
    ),
    Op(
        "log_sum_exp",
        """
def forward(x):
    m = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=-1)) + m[..., 0]
""",
        """
def backward(g, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return g[..., None] * e / e.sum(axis=-1, keepdims=True)
""",
        normal((3, 5)),
        (
            (" / e.sum(axis=-1, keepdims=True)", "", "wrong_value factor missing_term *"),
            ("g[..., None]", "g.sum()", "wrong_axis extra_term"),
        ),
    ),
    Op(
        "product",
        "def forward(a, b):\n    return a * b + np.sin(a)\n",
        "def backward(g, a, b):\n    return g * (b + np.cos(a)), g * a\n",
        normal((3, 4), (3, 4)),
        (
            ("b + np.cos(a)", "b", "missing_term overwritten *"),
            ("b + np.cos(a)", "np.cos(a)", "missing_term overwritten *"),
            ("b + np.cos(a)", "b - np.cos(a)", "sign *"),
            ("np.cos(a)", "np.sin(a)", "*"),
            ("g * a\n", "g * b\n", "wrong_value *"),
            ("g * a\n", "g * (a + 1)\n", "extra_term stale wrong_value *"),
        ),
    ),
)


def slips() -> Iterator[Slip]:
    for op in OPS:
        for before, after, codes in op.slips:
            yield Slip(op, before, after, tuple(codes.split()))
