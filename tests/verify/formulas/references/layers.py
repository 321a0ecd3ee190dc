"""Attention, activations and normalization, by PyTorch."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy.special import softmax

from tests.verify.formulas.torch_calls import tensors


def of(function, **options):
    """A PyTorch function of all arguments that are arrays, in the order given."""

    def reference(*args):
        yield function(*tensors(*args), **options).numpy()

    return reference


def gumbel(logits, uniform, temperature, eps):
    """Noise by SciPy's quantile function."""
    from scipy.stats import gumbel_r

    yield softmax((logits + gumbel_r.ppf(uniform)) / temperature, axis=-1)


def scores(q, k):
    yield np.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.shape[-1])


def weights(q, k):
    yield softmax(next(scores(q, k)), axis=-1)


def attention(causal):
    def reference(q, k, v):
        yield F.scaled_dot_product_attention(*tensors(q, k, v), is_causal=causal).numpy()

    return reference


def causal_weights(q, k):
    """Each row is that of the keys up to it alone."""
    (s,) = scores(q, k)
    yield causal_rows(s)


def causal_rows(s):
    out = np.zeros_like(s)
    for t in range(s.shape[-1]):
        out[..., t, : t + 1] = softmax(s[..., t, : t + 1], axis=-1)
    return out


def masked(s, mask):
    x = torch.tensor(s).masked_fill(torch.tensor(mask) == 0, -torch.inf)
    yield x.softmax(-1).numpy()


def additive(q, k, direction):
    s = np.array([[np.tanh(a + b) @ direction for b in k] for a in q])
    yield s
    yield softmax(s, axis=1)


def slopes(heads):
    """As in the authors' code."""
    start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
    return np.array([start * start**i for i in range(heads)])


def biases(heads, length):
    bias = [
        [[-m * max(i - j, 0) for j in range(length)] for i in range(length)] for m in slopes(heads)
    ]
    yield np.array(bias)


def positions(length, width, base):
    """As in the paper, for even and odd columns."""
    out = np.zeros((length, width))
    for p in range(length):
        for i in range(0, width, 2):
            out[p, i] = math.sin(p / base ** (i / width))
            out[p, i + 1] = math.cos(p / base ** (i / width))
    yield out


def times(t, width, base):
    half = width // 2
    yield np.stack(
        [[*np.sin(a), *np.cos(a)] for a in np.outer(t, [base ** (-k / half) for k in range(half)])]
    )
    if half > 1:
        spread = math.log(base) / (half - 1)
        angle = np.outer(t, np.exp(np.arange(half) * -spread))
        yield np.concatenate([np.sin(angle), np.cos(angle)], axis=1)


def turned(x, angle):
    """Pairs of neighbours as complex numbers, turned."""
    z = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def rotary(x, base):
    half = x.shape[-1] // 2
    angle = np.outer(np.arange(x.shape[-2]), [base ** (-2 * k / (2 * half)) for k in range(half)])
    yield turned(x, angle)


def rotated(x, cos, sin):
    """Of halves: as in GPT-NeoX."""
    a, b = torch.tensor(x).chunk(2, dim=-1)
    yield x * cos + torch.cat([-b, a], dim=-1).numpy() * sin


def rotated_pairs(x, cos, sin):
    z = (x[:, ::2] + 1j * x[:, 1::2]) * (cos + 1j * sin)
    yield np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


def gelu(x):
    for how in ("none", "tanh"):
        yield F.gelu(torch.tensor(x), approximate=how).numpy()


def squash(x):
    """Of length n² / (1 + n²), in the same direction."""
    n = np.linalg.norm(x, axis=-1, keepdims=True)
    yield F.normalize(torch.tensor(x), dim=-1).numpy() * (1 - 1 / (1 + n**2))


def lstm(i, f, g, o, c):
    n = i.shape[-1]
    cell = torch.nn.LSTMCell(4 * n, n, bias=False).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.eye(4 * n))
        cell.weight_hh.zero_()
        out = cell(torch.tensor(np.concatenate([i, f, g, o], axis=1)), tensors(0 * c, c))
    yield tuple(x.numpy() for x in out)


def lstm_gates(gates, c):
    yield from lstm(*np.split(gates, 4, axis=1), c)


def gru(update, candidate, hidden):
    n = hidden.shape[-1]
    cell = torch.nn.GRUCell(3 * n, n, bias=False).double()
    with torch.no_grad():
        cell.weight_ih.copy_(torch.eye(3 * n))
        cell.weight_hh.zero_()
        x = torch.tensor(np.concatenate([0 * update, update, candidate], axis=1))
        out = cell(x, torch.tensor(hidden)).numpy()
    yield out


def highway(x, y, gate):
    yield torch.lerp(*tensors(x, y, 1 / (1 + np.exp(-gate)))).numpy()


def layer_norm(x, eps):
    yield F.layer_norm(torch.tensor(x), x.shape[-1:], eps=eps).numpy()
    yield F.layer_norm(torch.tensor(x), x.shape, eps=eps).numpy()


def layer_norm_affine(x, w, b, eps):
    y, v, c = tensors(x, w, b)
    yield F.layer_norm(y, x.shape[-1:], v, c, eps=eps).numpy()


def batch_norm(x, *rest):
    *affine, eps = rest
    y, *wb = tensors(x, *affine)
    w, b = wb if wb else (None, None)
    yield F.batch_norm(y, None, None, w, b, training=True, eps=eps).numpy()


def inference(x, m, v, w, b, eps):
    yield F.batch_norm(*tensors(x, m, v, w, b), training=False, eps=eps).numpy()


def group_norm(x, groups, eps):
    yield F.group_norm(torch.tensor(x), groups, eps=eps).numpy()


def adain(content, style, eps):
    """Moments of the result are those of the style, if nothing is added to roots."""
    y = F.instance_norm(torch.tensor(content), eps=eps).numpy()
    s = np.sqrt(style.var(axis=(2, 3), keepdims=True) + eps)
    yield s * y + style.mean(axis=(2, 3), keepdims=True)


def rms_norm(x, *rest):
    *scale, eps = rest
    y, *w = tensors(x, *scale)
    yield F.rms_norm(y, x.shape[-1:], *w, eps=eps).numpy()


def weight_norm(v, g):
    yield torch._weight_norm(torch.tensor(v), torch.tensor(g)[:, None], 0).numpy()


def spectral(weight, u, v):
    """Of singular vectors it is the singular value."""
    a, s, b = np.linalg.svd(weight)
    assert np.isclose(a[:, 0] @ weight @ b[0], s[0])
    yield weight / np.einsum("i,ij,j->", u, weight, v)


def power_iteration(weight, u):
    v = F.normalize(torch.tensor(weight).T @ torch.tensor(u), dim=0)
    yield F.normalize(torch.tensor(weight) @ v, dim=0).numpy(), v.numpy()


def standard(x, eps):
    from sklearn.preprocessing import StandardScaler

    if x.ndim == 2:
        yield StandardScaler().fit_transform(x)
    yield (x - x.mean()) / (x.std() + eps)


def min_max(x, eps):
    from sklearn.preprocessing import MinMaxScaler

    yield MinMaxScaler().fit_transform(x)
    yield MinMaxScaler((-1, 1)).fit_transform(x)


def clipped(gradient, limit):
    p = torch.nn.Parameter(torch.zeros(gradient.shape).double())
    p.grad = torch.tensor(gradient)
    torch.nn.utils.clip_grad_norm_([p], limit)
    yield p.grad.numpy()


def film(x, scale, shift):
    if x.ndim == 3:
        yield np.stack([a * (1 + s) + b for a, s, b in zip(x, scale, shift, strict=True)])
    else:
        yield x + x * scale + shift


def response(x, eps):
    """As in the authors' code, without its weights."""
    y = torch.tensor(x)
    g = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
    yield (y * (g / (g.mean(dim=-1, keepdim=True) + eps)) + y).numpy()


REFERENCES = {
    "softmax": lambda x: [softmax(x, axis=k) for k in range(x.ndim)],
    "log-softmax": of(F.log_softmax, dim=-1),
    "softmax with temperature": lambda x, t: [softmax(x / t, axis=-1)],
    "Gumbel-softmax": gumbel,
    "scaled scores": scores,
    "attention weights": weights,
    "attention": attention(False),
    "causal attention weights": causal_weights,
    "attention without a scale": lambda q, k, v: [
        F.scaled_dot_product_attention(*tensors(q, k, v), scale=1.0).numpy()
    ],
    "attention scaled by the width": lambda q, k, v: [
        F.scaled_dot_product_attention(*tensors(q, k, v), scale=1 / q.shape[-1]).numpy()
    ],
    "causal attention": attention(True),
    "causal weights of scores": lambda s: [causal_rows(s)],
    "weights of scores under a mask": masked,
    "additive attention": additive,
    "slopes of ALiBi": lambda heads: [slopes(heads)],
    "biases of ALiBi": biases,
    "sinusoidal positions": positions,
    "sinusoidal times": times,
    "frequencies of positions": lambda w, base: [
        np.array([1 / base ** (i / w) for i in range(0, w, 2)])
    ],
    "rotary positions": rotary,
    "rotation by given cosines": rotated,
    "rotation of pairs by given cosines": rotated_pairs,
    "GELU": gelu,
    "swish": of(F.silu),
    "mish": of(F.mish),
    "swish with a scale": lambda x, b: [F.silu(torch.tensor(b * x)).numpy() / b],
    "ELU": lambda x, a: [F.elu(torch.tensor(x), a).numpy()],
    "SELU": of(F.selu),
    "leaky ReLU": lambda x, a: [F.leaky_relu(torch.tensor(x), a).numpy()],
    "softplus": lambda x, b: [F.softplus(torch.tensor(x), b).numpy()],
    "hard swish": of(F.hardswish),
    "SwiGLU": lambda g, v: [F.silu(torch.tensor(g)).numpy() * v],
    "GLU": lambda g, v: [F.glu(torch.tensor(np.concatenate([v, g], axis=-1))).numpy()],
    "squashed capsules": squash,
    "LSTM cell": lstm,
    "LSTM cell of gates side by side": lstm_gates,
    "GRU cell": gru,
    "highway layer": highway,
    "layer normalization": layer_norm,
    "layer normalization with weights": layer_norm_affine,
    "layer normalization with weights of sequences": layer_norm_affine,
    "batch normalization": batch_norm,
    "batch normalization with weights": batch_norm,
    "batch normalization of images": batch_norm,
    "batch normalization of images with weights": batch_norm,
    "batch normalization by running statistics": inference,
    "group normalization": group_norm,
    "instance normalization": lambda x, eps: [F.instance_norm(torch.tensor(x), eps=eps).numpy()],
    "adaptive instance normalization": adain,
    "root mean square normalization": rms_norm,
    "root mean square normalization with weights": rms_norm,
    "weight normalization": weight_norm,
    "spectral normalization": spectral,
    "power iteration": power_iteration,
    "standardization": standard,
    "scaling to a range": min_max,
    "rows of unit length": lambda x, eps: [F.normalize(torch.tensor(x), dim=-1, eps=eps).numpy()],
    "clipping by norm": clipped,
    "running statistics": lambda old, new, m: [torch.lerp(*tensors(old, new), m).numpy()],
    "feature-wise modulation": film,
    "global response normalization": response,
}
