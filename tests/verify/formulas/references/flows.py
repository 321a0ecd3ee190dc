"""Invertible maps: determinants by automatic differentiation, densities by SciPy."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats
from scipy.special import logit

from tests.verify.formulas.torch_calls import tensors


def log_determinants(f, rows):
    """Of a map of rows, each by itself."""
    jacobians = [torch.autograd.functional.jacobian(f, r) for r in torch.tensor(rows)]
    return np.array([torch.linalg.slogdet(j)[1].item() for j in jacobians])


def coupling(x, s, t):
    y = x * np.exp(s) + t
    volume = [torch.linalg.slogdet(torch.diag(torch.exp(row)))[1].item() for row in torch.tensor(s)]
    yield y
    yield y, np.array(volume)


def inverse(y, s, t):
    """What the map takes to y."""
    x = np.stack(
        [np.linalg.solve(np.diag(np.exp(a)), b - c) for a, b, c in zip(s, y, t, strict=True)]
    )
    yield x
    yield x, -np.array(s).sum(axis=1)


def planar(z, u, w, b):
    a, c = tensors(u, w)
    f = lambda r: r + a * torch.tanh(r @ c + b)
    yield f(torch.tensor(z)[0]) if z.ndim == 1 else torch.stack([f(r) for r in torch.tensor(z)])
    yield np.stack([f(r).numpy() for r in torch.tensor(z)]), log_determinants(f, z)


def planar_volume(z, u, w, b, eps):
    (_, (_, volume)) = planar(z, u, w, b)
    yield volume


def radial(z, center, alpha, beta):
    c = torch.tensor(center)
    b = -alpha + np.log1p(np.exp(beta))
    f = lambda r: r + b / (alpha + torch.linalg.norm(r - c)) * (r - c)
    yield np.stack([f(r).numpy() for r in torch.tensor(z)]), log_determinants(f, z)


def logits(x, edge):
    yield logit(edge + (1 - 2 * edge) * x)
    f = lambda r: torch.logit(edge + (1 - 2 * edge) * r)
    yield f(torch.tensor(x)).numpy(), log_determinants(f, x)


def slopes(f, x):
    y = torch.tensor(x, requires_grad=True)
    (g,) = torch.autograd.grad(f(y).sum(), y)
    return g.log().numpy()


def standard_normal(x):
    yield -stats.norm.logpdf(x)
    yield -stats.norm.logpdf(x).sum(axis=-1)


def likelihood(z, volume):
    yield -stats.multivariate_normal.logpdf(z, np.zeros(z.shape[1])) - volume


def bits(nll, size, levels):
    """Of data in [0, 1] that come from so many levels."""
    yield nll / np.log(2) / size + np.log(levels) / np.log(2)


REFERENCES = {
    "affine coupling": coupling,
    "inverse of affine coupling": inverse,
    "planar flow": planar,
    "log-determinant of a planar flow": planar_volume,
    "radial flow": radial,
    "logits of data": logits,
    "log-slope of the logistic function": lambda x: [slopes(torch.sigmoid, x)],
    "log-slope of the hyperbolic tangent": lambda x: [slopes(torch.tanh, x)],
    "standard normal log-density": standard_normal,
    "likelihood of a flow": likelihood,
    "bits per dimension": bits,
    "actnorm": lambda x, s, b: [np.exp(s) * x + np.exp(s) * b, np.exp(s) * x + b],
}
