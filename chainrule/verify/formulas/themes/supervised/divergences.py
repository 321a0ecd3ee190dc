"""How far apart distributions are, and how much is in one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    log_softmax,
    reductions,
    sigmoid,
    softmax,
    softplus,
    square_distances,
    totals,
)


def _standard_log_variance(mean: Array, log_variance: Array) -> Iterator[Array]:
    yield from reductions(0.5 * (mean**2 + np.exp(log_variance) - log_variance - 1))


def _free_bits(mean: Array, log_variance: Array, free: float) -> Iterator[Array]:
    """Each number's, each number's mean over cases, or each case's is at least so much."""
    kl = 0.5 * (mean**2 + np.exp(log_variance) - log_variance - 1)
    for x in (kl, kl.mean(axis=0), kl.sum(axis=-1), np.asarray(kl.sum(axis=-1).mean())):
        yield from reductions(np.maximum(x, free))


def _standard_variance(mean: Array, variance: Array, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        yield from reductions(0.5 * (mean**2 + variance - np.log(variance + e) - 1))


def _standard_std(mean: Array, std: Array, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        yield from reductions(0.5 * (mean**2 + std**2 - 1) - np.log(std + e))
        yield from reductions(0.5 * (mean**2 + std**2 - 1 - np.log(std**2 + e)))


def _standard_log_std(mean: Array, log_std: Array) -> Iterator[Array]:
    yield from reductions(0.5 * (mean**2 + np.exp(2 * log_std) - 1) - log_std)


def _two(mean: Array, variance: Array, prior_mean: Array, prior_variance: Array) -> Array:
    ratio = variance / prior_variance
    return 0.5 * (ratio + (mean - prior_mean) ** 2 / prior_variance - 1 - np.log(ratio))


def _two_variance(
    mean: Array, variance: Array, prior_mean: Array, prior_variance: Array
) -> Iterator[Array]:
    yield from reductions(_two(mean, variance, prior_mean, prior_variance))


def _two_std(mean: Array, std: Array, prior_mean: Array, prior_std: Array) -> Iterator[Array]:
    yield from reductions(_two(mean, std**2, prior_mean, prior_std**2))


def _two_log_variance(
    mean: Array, log_variance: Array, prior_mean: Array, prior_log_variance: Array
) -> Iterator[Array]:
    yield from reductions(_two(mean, np.exp(log_variance), prior_mean, np.exp(prior_log_variance)))


def _two_log_std(
    mean: Array, log_std: Array, prior_mean: Array, prior_log_std: Array
) -> Iterator[Array]:
    yield from reductions(_two(mean, np.exp(2 * log_std), prior_mean, np.exp(2 * prior_log_std)))


def _shares(p: Array, q: Array, eps: float) -> Iterator[Array]:
    yield p * np.log(p / q)
    yield p * np.log((p + eps) / (q + eps))
    yield p * np.log(p / q + eps)
    yield p * np.log(p / (q + eps) + eps)
    yield p * (np.log(np.maximum(p, eps)) - np.log(np.maximum(q, eps)))


def _categorical(p: Array, q: Array, eps: float) -> Iterator[Array]:
    for terms in _shares(p, q, eps):
        yield from reductions(terms)


def _categorical_logs(log_p: Array, log_q: Array) -> Iterator[Array]:
    yield from reductions(np.exp(log_p) * (log_p - log_q))


def _categorical_logits(logits: Array, other_logits: Array) -> Iterator[Array]:
    yield from _categorical_logs(log_softmax(logits), log_softmax(other_logits))


def _jensen_shannon(p: Array, q: Array, eps: float) -> Iterator[Array]:
    m = 0.5 * (p + q)
    for a, b in zip(_shares(p, m, eps), _shares(q, m, eps), strict=True):
        yield from reductions(a + b)
        yield np.sqrt(0.5 * np.abs((a + b).sum(axis=-1)))


def _jensen_shannon_logits(logits: Array, other_logits: Array) -> Iterator[Array]:
    yield from _jensen_shannon(softmax(logits), softmax(other_logits), 0.0)


def _entropy(p: Array, eps: float) -> Iterator[Array]:
    for log in (np.log(p), np.log(p + eps), np.log(np.maximum(p, eps))):
        yield from reductions(-p * log)


def _entropy_logits(logits: Array) -> Iterator[Array]:
    yield from reductions(-softmax(logits) * log_softmax(logits))


def _entropy_logs(log_p: Array) -> Iterator[Array]:
    yield from reductions(-np.exp(log_p) * log_p)


def _binary_entropy(p: Array, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        yield from reductions(-(p * np.log(p + e) + (1 - p) * np.log(1 - p + e)))


def _binary_entropy_logits(logits: Array) -> Iterator[Array]:
    p = sigmoid(logits)
    yield from reductions(p * softplus(-logits) + (1 - p) * softplus(logits))


def _gaussian_entropy(log_std: Array) -> Iterator[Array]:
    each = log_std + 0.5 * np.log(2 * np.pi * np.e)
    yield from (each, each.sum(axis=-1), each.mean(), each.sum(axis=-1).mean(), each.sum())


def _sparsity(average: Array, rho: float, eps: float) -> Iterator[Array]:
    for a in (average, average + eps, np.clip(average, eps, 1 - eps)):
        yield from reductions(rho * np.log(rho / a) + (1 - rho) * np.log((1 - rho) / (1 - a)))


def _unit_sparsity(activations: Array, rho: float, eps: float) -> Iterator[Array]:
    yield from _sparsity(activations.mean(axis=0), rho, eps)


def _bernoulli(p: Array, q: Array, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        other = (1 - p) * np.log((1 - p + e) / (1 - q + e))
        yield from reductions(p * np.log((p + e) / (q + e)) + other)


def _hellinger(p: Array, q: Array) -> Iterator[Array]:
    square = 0.5 * ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(axis=-1)
    yield from (*totals(square), *totals(np.sqrt(square)))


def _bhattacharyya(p: Array, q: Array) -> Iterator[Array]:
    yield from totals(-np.log(np.sqrt(p * q).sum(axis=-1)))


def _wasserstein(mean: Array, std: Array, other_mean: Array, other_std: Array) -> Iterator[Array]:
    square = (mean - other_mean) ** 2 + (std - other_std) ** 2
    yield from (*reductions(square), *totals(np.sqrt(square.sum(axis=-1))))


def _frechet(mean: Array, cov: Array, other_mean: Array, other_cov: Array) -> Iterator[Array]:
    roots = np.sqrt(np.abs(np.linalg.eigvals(cov @ other_cov)))
    square = ((mean - other_mean) ** 2).sum()
    yield np.asarray(square + np.trace(cov + other_cov) - 2 * roots.sum())


def _discrepancy(x: Array, y: Array, width: float) -> Iterator[Array]:
    """Biased, and without the pairs of a point with itself."""
    n, m = len(x), len(y)
    for gamma in (0.5 / width**2, 1 / width**2, 1 / width, 0.5 / width, width):
        xx, yy, xy = (np.exp(-gamma * square_distances(*p)) for p in ((x, x), (y, y), (x, y)))
        yield np.asarray(xx.mean() + yy.mean() - 2 * xy.mean())
        yield np.sqrt(np.abs(xx.mean() + yy.mean() - 2 * xy.mean()))
        own = (xx.sum() - n) / (n * (n - 1)) + (yy.sum() - m) / (m * (m - 1))
        yield np.asarray(own - 2 * xy.mean())


def _donsker_varadhan(joint: Array, marginal: Array) -> Iterator[Array]:
    yield np.asarray(joint.mean() - np.log(np.exp(marginal).mean()))


def _nguyen(joint: Array, marginal: Array) -> Iterator[Array]:
    yield np.asarray(joint.mean() - np.exp(marginal - 1).mean())
    yield np.asarray(1 + joint.mean() - np.exp(marginal).mean())


_KL = ("kl*", "divergence", "elbo", "prior")
_KINGMA = "Kingma and Welling, Auto-encoding variational Bayes, 2014, appendix B"
_TWO = "Kullback and Leibler, On information and sufficiency, 1951; of two normal distributions"
_KULLBACK = "Kullback and Leibler, On information and sufficiency, 1951"
_SHANNON = "Shannon, A mathematical theory of communication, 1948"
_LIN = "Lin, Divergence measures based on the Shannon entropy, 1991"
_NG = "Ng, Sparse autoencoder, CS294A lecture notes, 2011"

ROWS = (
    Formula("KL to the standard normal by log-variance", _KL, "mean[*], log_variance[*]",
            _standard_log_variance, _KINGMA, "factor"),
    Formula("KL to the standard normal by variance", _KL, "mean[*], variance[*], eps[]",
            _standard_variance, _KINGMA, "factor"),
    Formula("KL to the standard normal by deviation", _KL, "mean[*], std[*], eps[]",
            _standard_std, _KINGMA, "factor"),
    Formula("KL to the standard normal by log-deviation", _KL, "mean[*], log_std[*]",
            _standard_log_std, _KINGMA, "factor"),
    Formula("KL of two normals by variance", _KL,
            "mean[*], variance[*], prior_mean[*], prior_variance[*]", _two_variance, _TWO,
            "factor"),
    Formula("KL of two normals by deviation", _KL,
            "mean[*], std[*], prior_mean[*], prior_std[*]", _two_std, _TWO, "factor"),
    Formula("KL of two normals by log-variance", _KL,
            "mean[*], log_variance[*], prior_mean[*], prior_log_variance[*]",
            _two_log_variance, _TWO, "factor"),
    Formula("KL of two normals by log-deviation", _KL,
            "mean[*], log_std[*], prior_mean[*], prior_log_std[*]", _two_log_std, _TWO, "factor"),
    Formula("KL of probabilities", _KL, "p[*], q[*], eps[]", _categorical, _KULLBACK, "factor"),
    Formula("KL of log-probabilities", _KL, "log_p[*], log_q[*]", _categorical_logs, _KULLBACK,
            "factor"),
    Formula("KL of logits", _KL, "logits[*], other_logits[*]", _categorical_logits, _KULLBACK,
            "factor"),
    Formula("Jensen-Shannon divergence", ("js*", "jensen*", "shannon"), "p[*], q[*], eps[]",
            _jensen_shannon, _LIN, "factor"),
    Formula("Jensen-Shannon divergence of logits", ("js*", "jensen*", "shannon"),
            "logits[*], other_logits[*]", _jensen_shannon_logits, _LIN, "factor"),
    Formula("entropy", ("ent", "entropy"), "p[*], eps[]", _entropy, _SHANNON, "factor"),
    Formula("entropy of logits", ("ent", "entropy"), "logits[*]", _entropy_logits, _SHANNON,
            "factor"),
    Formula("entropy of log-probabilities", ("ent", "entropy"), "log_p[*]", _entropy_logs,
            _SHANNON, "factor"),
    Formula("binary entropy", ("ent", "entropy"), "p[*], eps[]", _binary_entropy, _SHANNON,
            "factor"),
    Formula("binary entropy of logits", ("ent", "entropy"), "logits[*]",
            _binary_entropy_logits, _SHANNON, "factor"),
    Formula("entropy of a normal distribution", ("ent", "entropy"), "log_std[*]",
            _gaussian_entropy, _SHANNON, "factor"),
    Formula("sparsity penalty", ("spars*", "rho"), "average[*], rho[], eps[]", _sparsity, _NG,
            "factor"),
    Formula("sparsity penalty of activations", ("spars*", "rho"),
            "activations[n h], rho[], eps[]", _unit_sparsity, _NG, "factor"),
    Formula("KL of Bernoulli distributions", (*_KL, "bernoulli*"), "p[*], q[*], eps[]",
            _bernoulli, _KULLBACK, "factor"),
    Formula("Hellinger distance", ("hellinger*",), "p[*], q[*]", _hellinger,
            "Hellinger 1909; van der Vaart, Asymptotic statistics, 1998", "factor"),
    Formula("Bhattacharyya distance", ("bhatta*",), "p[*], q[*]", _bhattacharyya,
            "Bhattacharyya, On a measure of divergence between two statistical populations, 1943",
            "factor"),
    Formula("Wasserstein distance of normals", ("wasserstein*", "w2"),
            "mean[*], std[*], other_mean[*], other_std[*]", _wasserstein,
            "Givens and Shortt, A class of Wasserstein metrics for probability distributions, "
            "1984", "factor"),
    Formula("Fréchet distance of normals", ("fid", "frechet*"),
            "mean[d], cov[d d], other_mean[d], other_cov[d d]", _frechet,
            "Heusel et al., GANs trained by a two time-scale update rule, 2017"),
    Formula("maximum mean discrepancy", ("mmd*", "discrepancy"), "x[n d], y[m d], width[]",
            _discrepancy, "Gretton et al., A kernel two-sample test, 2012", "factor"),
    Formula("Donsker-Varadhan bound", ("mine", "mi", "mutual", "donsker*", "dv"),
            "joint[n], marginal[m]", _donsker_varadhan,
            "Belghazi et al., Mutual information neural estimation, 2018", "factor"),
    Formula("bound of Nguyen, Wainwright and Jordan", ("nwj", "mi", "mutual"),
            "joint[n], marginal[m]", _nguyen, "Nguyen, Wainwright and Jordan, Estimating "
            "divergence functionals and the likelihood ratio by convex risk minimization, 2010",
            "factor"),
    Formula("KL to the standard normal with free bits", ("free*", "bits", *_KL),
            "mean[*], log_variance[*], free[]", _free_bits, "Kingma et al., Improved variational "
            "inference with inverse autoregressive flow, 2016, appendix C.8", "factor"),
)  # fmt: skip
"""Rows of this theme."""
