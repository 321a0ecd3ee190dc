"""Losses of numbers, by PyTorch and scikit-learn."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F  # noqa: N812
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn import metrics

from tests.verify.formulas.torch_calls import by_torch, tensors


def mape(p, t, eps):
    return [metrics.mean_absolute_percentage_error(t, p)]


def smape(p, t, eps):
    return [np.mean([200 * abs(a - b) / (a + b) for a, b in zip(p.flat, t.flat, strict=True)])]


def msle(p, t):
    yield metrics.mean_squared_log_error(t, p)
    yield metrics.root_mean_squared_log_error(t.ravel(), p.ravel())


def r2(p, t, eps):
    yield metrics.r2_score(t.ravel(), p.ravel())
    yield metrics.r2_score(t, p)


def huber(p, t, delta):
    p, t = tensors(p, t)
    for how in ("none", "mean", "sum"):
        yield F.huber_loss(p, t, reduction=how, delta=delta).numpy()
        yield F.smooth_l1_loss(p, t, reduction=how, beta=delta).numpy()


def log_cosh(p, t):
    yield np.log(np.cosh(p - t))
    yield np.log(np.cosh(p - t)).sum()


def charbonnier(p, t, eps):
    """As the integral of its slope."""
    e = p[0, 0] - t[0, 0]
    whole = quad(lambda x: x / np.hypot(x, eps), 0, abs(e), points=[eps])[0]
    yield np.hypot(p - t, eps)
    yield eps**2 * (np.sqrt(1 + ((p - t) / eps) ** 2) - 1)
    assert np.isclose(np.hypot(e, eps) - eps, whole)


def barron(p, t, alpha, c):
    """Its slope is `x / c² (x² / (c² |a - 2|) + 1)^(a / 2 - 1)` (section 1 of the paper)."""
    e = (p - t).ravel()
    slope = lambda x: x / c**2 * ((x / c) ** 2 / abs(alpha - 2) + 1) ** (alpha / 2 - 1)
    yield np.array([quad(slope, 0, x)[0] for x in e]).reshape(p.shape)


def cauchy(p, t, c):
    """Its slope is `x / (1 + (x / c)²)`."""
    e = (p - t).ravel()
    yield np.array([quad(lambda x: x / (1 + (x / c) ** 2), 0, x)[0] for x in e]).reshape(p.shape)


def tukey(p, t, c):
    """Its slope is `x (1 - (x / c)²)²` within `c`."""
    slope = lambda x: x * (1 - (x / c) ** 2) ** 2
    e = np.clip((p - t).ravel(), -c, c)
    yield np.array([quad(slope, 0, x)[0] for x in e]).reshape(p.shape)


def pinball(p, t, q):
    if np.ndim(q) == 0:
        yield metrics.mean_pinball_loss(t.ravel(), p.ravel(), alpha=q)
        yield np.where(t > p, q * (t - p), (1 - q) * (p - t))
    else:
        yield np.mean([metrics.mean_pinball_loss(t, p[:, k], alpha=a) for k, a in enumerate(q)])


def expectile(p, t, tau):
    """The best constant c has tau E max(t - c, 0) = (1 - tau) E max(c - t, 0)."""
    yield np.abs(tau - (t < p)) * (t - p) ** 2
    best = minimize_scalar(
        lambda c: (np.abs(tau - (t < c)) * (t - c) ** 2).sum(), bounds=(0, 1), method="bounded"
    ).x
    above, below = np.maximum(t - best, 0).sum(), np.maximum(best - t, 0).sum()
    assert np.isclose(tau * above, (1 - tau) * below, rtol=1e-3)


def interval(lower, upper, t, alpha):
    """Two pinball losses."""
    low = np.where(t > lower, alpha / 2 * (t - lower), (1 - alpha / 2) * (lower - t))
    high = np.where(t > upper, (1 - alpha / 2) * (t - upper), alpha / 2 * (upper - t))
    yield low + high


def insensitive(p, t, margin):
    yield np.abs(p - t) - np.minimum(np.abs(p - t), margin)


def scale_invariant(p, t, share):
    """With a share of 1 a common factor of all predictions is nothing."""
    d = np.log(p) - np.log(t)
    yield np.sqrt(np.mean(d**2) - share * np.mean(d) ** 2)
    yield np.mean((d - d.mean()) ** 2) + (1 - share) * d.mean() ** 2


def masked(x, mask, eps):
    yield x[mask.astype(bool)].mean()


def power(p, t, order):
    yield np.mean([np.linalg.norm([x], ord=2) ** order for x in (p - t).flat])


def weighted(p, t, w):
    """By scikit-learn: the weights are those of cases."""
    if w.ndim == 1:
        yield metrics.mean_squared_error(t, p, sample_weight=w) * w.sum()
        yield metrics.mean_absolute_error(t, p, sample_weight=w)
    else:
        yield metrics.mean_squared_error(t.ravel(), p.ravel(), sample_weight=w.ravel())


def uncertain(losses, s):
    """A normal likelihood of errors whose squares are the losses."""
    yield sum(-norm.logpdf(np.sqrt(losses), 0, np.exp(s / 2)) - np.log(2 * np.pi) / 2)


REFERENCES = {
    "squared error": by_torch(F.mse_loss),
    "absolute error": by_torch(F.l1_loss),
    "absolute percentage error": mape,
    "symmetric absolute percentage error": smape,
    "squared logarithmic error": msle,
    "coefficient of determination": r2,
    "explained variance": lambda p, t, eps: [metrics.explained_variance_score(t, p)],
    "Huber loss": huber,
    "log-cosh loss": log_cosh,
    "Charbonnier loss": charbonnier,
    "Barron's robust loss": barron,
    "Cauchy loss": cauchy,
    "Tukey's biweight loss": tukey,
    "pinball loss": pinball,
    "expectile loss": expectile,
    "interval score": interval,
    "epsilon-insensitive loss": insensitive,
    "scale-invariant logarithmic error": scale_invariant,
    "mean over a mask": masked,
    "power of errors": power,
    "weighted error": weighted,
    "losses weighed by uncertainty": uncertain,
}
