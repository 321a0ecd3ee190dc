"""Divergences, by SciPy, PyTorch and quadrature."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy import stats
from scipy.integrate import quad
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist, jensenshannon
from scipy.special import softmax
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from tests.verify.formulas.torch_calls import tensors


def kl_of_normals(mean, std, other_mean, other_std):
    m, s, n, r = tensors(mean, std, other_mean, other_std)
    each = kl_divergence(Normal(m, s), Normal(n, r)).numpy()
    yield from (each, each.sum(axis=-1), each.sum(), each.mean(axis=0), each.sum(axis=-1).mean())


def to_standard(mean, std):
    yield from kl_of_normals(mean, std, np.zeros_like(mean), np.ones_like(mean))


def categorical(p, q):
    yield np.array([stats.entropy(a, b) for a, b in zip(p, q, strict=True)])
    log_q, p = tensors(np.log(q), p)
    for how in ("batchmean", "sum", "none"):
        yield F.kl_div(log_q, p, reduction=how).numpy()


def jensen_shannon(p, q):
    yield np.array([jensenshannon(a, b) ** 2 for a, b in zip(p, q, strict=True)])
    yield np.array([jensenshannon(a, b) for a, b in zip(p, q, strict=True)])


def entropy(logits):
    each = Categorical(logits=torch.tensor(logits)).entropy().numpy()
    yield from (each, each.mean())


def binary_entropy(p):
    yield Bernoulli(torch.tensor(p)).entropy().numpy()


def normal_entropy(log_std):
    each = Normal(torch.zeros(1).double(), torch.tensor(np.exp(log_std))).entropy().numpy()
    yield from (each, each.sum(axis=-1), each.mean(), each.sum(axis=-1).mean())


def bernoulli(p, q):
    yield kl_divergence(Bernoulli(torch.tensor(p)), Bernoulli(torch.tensor(q))).numpy()


def sparsity(average, rho, eps):
    yield from bernoulli(np.full_like(average, rho), average)
    yield sum(next(bernoulli(np.full_like(average, rho), average)).ravel())


def hellinger(p, q):
    """By what of the root of the product is missing to 1."""
    yield np.sqrt(1 - np.sqrt(p * q).sum(axis=1))


def wasserstein(m, s, n, r):
    """The distance of the quantile functions."""
    each = [
        quad(lambda u, k=k: (stats.norm.ppf(u, m.flat[k], s.flat[k])
                             - stats.norm.ppf(u, n.flat[k], r.flat[k])) ** 2, 0, 1)[0]
        for k in range(4)
    ]  # fmt: skip
    full = ((m - n) ** 2 + (s - r) ** 2).ravel()
    assert np.allclose(full[:4], each, rtol=1e-5)
    yield full.sum()


def frechet(m, c, n, d):
    yield ((m - n) ** 2).sum() + np.trace(c + d - 2 * sqrtm(c @ d).real)


def discrepancy(x, y, width):
    """The squared length of a difference of means in the kernel's space."""
    z = np.concatenate([x, y])
    k = np.exp(-(cdist(z, z) ** 2) / (2 * width**2))
    w = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    yield w @ k @ w


def donsker_varadhan(joint, marginal):
    """Of the log-ratio of two distributions it is their divergence."""
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    t = np.log(p / q)
    assert np.isclose(p @ t - np.log(q @ np.exp(t)), stats.entropy(p, q))
    yield joint.mean() - (torch.tensor(marginal).logsumexp(0).item() - np.log(len(marginal)))


def nguyen(joint, marginal):
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    t = 1 + np.log(p / q)
    assert np.isclose(p @ t - q @ np.exp(t - 1), stats.entropy(p, q))
    yield joint.mean() - np.exp(marginal).mean() / np.e


def distillation(student, teacher, temperature):
    s, t = tensors(student / temperature, teacher / temperature)
    yield F.kl_div(s.log_softmax(1), t.softmax(1), reduction="batchmean").numpy()
    yield F.cross_entropy(s, t.softmax(1)).numpy()


def hard_and_soft(student, teacher, labels, temperature, alpha):
    soft, *_ = distillation(student, teacher, temperature)
    hard = F.cross_entropy(*tensors(student, labels)).numpy()
    yield alpha * temperature**2 * soft + (1 - alpha) * hard
    yield (1 - alpha) * temperature**2 * soft + alpha * hard


def free_bits(mean, log_variance, free):
    (each, *_) = to_standard(mean, np.exp(log_variance / 2))
    yield sum(max(x, free) for x in each.mean(axis=0))
    yield np.where(each > free, each, free).sum()


REFERENCES = {
    "KL to the standard normal by log-variance": lambda m, v: to_standard(m, np.exp(v / 2)),
    "KL to the standard normal by variance": lambda m, v, eps: to_standard(m, np.sqrt(v)),
    "KL to the standard normal by deviation": lambda m, s, eps: to_standard(m, s),
    "KL to the standard normal by log-deviation": lambda m, s: to_standard(m, np.exp(s)),
    "KL of two normals by variance": lambda m, v, n, w: kl_of_normals(m, np.sqrt(v), n, np.sqrt(w)),
    "KL of two normals by deviation": kl_of_normals,
    "KL of two normals by log-variance": lambda m, v, n, w: kl_of_normals(
        m, np.exp(v / 2), n, np.exp(w / 2)
    ),
    "KL of two normals by log-deviation": lambda m, s, n, r: kl_of_normals(
        m, np.exp(s), n, np.exp(r)
    ),
    "KL of probabilities": lambda p, q, eps: categorical(p, q),
    "KL of log-probabilities": lambda p, q: [np.exp(p) * (p - q), (np.exp(p) * (p - q)).sum()],
    "KL of logits": lambda x, y: categorical(softmax(x, axis=1), softmax(y, axis=1)),
    "Jensen-Shannon divergence": lambda p, q, eps: jensen_shannon(p, q),
    "Jensen-Shannon divergence of logits": lambda x, y: jensen_shannon(
        softmax(x, axis=1), softmax(y, axis=1)
    ),
    "entropy": lambda p, eps: entropy(np.log(p)),
    "entropy of logits": entropy,
    "entropy of log-probabilities": lambda x: [-(np.exp(x) * x).sum(axis=1)],
    "binary entropy": lambda p, eps: binary_entropy(p),
    "binary entropy of logits": lambda x: binary_entropy(1 / (1 + np.exp(-x))),
    "entropy of a normal distribution": normal_entropy,
    "sparsity penalty": sparsity,
    "sparsity penalty of activations": lambda a, rho, eps: sparsity(a.mean(axis=0), rho, eps),
    "KL of Bernoulli distributions": lambda p, q, eps: bernoulli(p, q),
    "Hellinger distance": hellinger,
    "Bhattacharyya distance": lambda p, q: [-np.log(1 - next(hellinger(p, q)) ** 2)],
    "Wasserstein distance of normals": wasserstein,
    "Fréchet distance of normals": frechet,
    "maximum mean discrepancy": discrepancy,
    "Donsker-Varadhan bound": donsker_varadhan,
    "bound of Nguyen, Wainwright and Jordan": nguyen,
    "distillation of soft targets": distillation,
    "KL to the standard normal with free bits": free_bits,
    "distillation of hard and soft targets": hard_and_soft,
}
