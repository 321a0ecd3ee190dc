"""Log-likelihoods of distributions. Constants are written or left out: both are in use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    log_gamma,
    log_softmax,
    log_sum_exp,
    reductions,
    softplus,
    totals,
)

_LOG_TAU = float(np.log(2 * np.pi))


def _with_constant(loss: Array, constant: float) -> Iterator[Array]:
    """A loss, of each and as a mean; summed over the last axis, that is so many constants."""
    yield from reductions(loss)
    yield from reductions(loss + constant)


def _gaussian(error: Array, log_std: Array) -> Iterator[Array]:
    """Of an error that has been divided by the deviation."""
    yield from _with_constant(0.5 * error**2 + log_std, 0.5 * _LOG_TAU)


def _gaussian_log_variance(mean: Array, log_variance: Array, target: Array) -> Iterator[Array]:
    yield from _gaussian((target - mean) * np.exp(-0.5 * log_variance), 0.5 * log_variance)


def _gaussian_variance(mean: Array, variance: Array, target: Array, eps: float) -> Iterator[Array]:
    for v in (variance, variance + eps, np.maximum(variance, eps)):
        yield from _gaussian((target - mean) / np.sqrt(v), 0.5 * np.log(v))


def _gaussian_std(mean: Array, std: Array, target: Array, eps: float) -> Iterator[Array]:
    for s in (std, std + eps, np.maximum(std, eps)):
        yield from _gaussian((target - mean) / s, np.log(s))


def _gaussian_log_std(mean: Array, log_std: Array, target: Array) -> Iterator[Array]:
    yield from _gaussian((target - mean) * np.exp(-log_std), log_std)


def _gaussian_one_std(mean: Array, target: Array, std: float) -> Iterator[Array]:
    """One deviation for all."""
    yield from _gaussian((target - mean) / std, np.log(std) + np.zeros_like(mean))
    yield from reductions(((target - mean) / std) ** 2)


def _gaussian_shared_log_std(mean: Array, log_std: Array, target: Array) -> Iterator[Array]:
    """Policies have one for each action, for all states."""
    yield from _gaussian((target - mean) * np.exp(-log_std), log_std + np.zeros_like(mean))


def _beta_nll(mean: Array, variance: Array, target: Array, beta: float) -> Iterator[Array]:
    nll = 0.5 * ((target - mean) ** 2 / variance + np.log(variance))
    yield from reductions(variance**beta * nll)
    yield from reductions(variance**beta * (nll + 0.5 * _LOG_TAU))


def _laplace(location: Array, scale: Array, target: Array) -> Iterator[Array]:
    yield from _with_constant(np.abs(target - location) / scale + np.log(scale), np.log(2.0))


def _laplace_log(location: Array, log_scale: Array, target: Array) -> Iterator[Array]:
    off = np.abs(target - location) * np.exp(-log_scale)
    yield from _with_constant(off + log_scale, np.log(2.0))


def _student(location: Array, scale: Array, target: Array, freedom: float) -> Iterator[Array]:
    z = (target - location) / scale
    loss = 0.5 * (freedom + 1) * np.log1p(z**2 / freedom) + np.log(scale)
    constant = log_gamma(freedom / 2) - log_gamma((freedom + 1) / 2)
    yield from _with_constant(loss, float(constant + 0.5 * np.log(freedom * np.pi)))


def _log_normal(mean: Array, std: Array, target: Array) -> Iterator[Array]:
    z = (np.log(target) - mean) / std
    yield from _with_constant(0.5 * z**2 + np.log(std) + np.log(target), 0.5 * _LOG_TAU)


def _stirling(target: Array) -> Array:
    big = np.maximum(target, 1.0)
    full = big * np.log(big) - big + 0.5 * (_LOG_TAU + np.log(big))
    return np.where(target > 1, full, 0.0)


def _counts(loss: Array, target: Array) -> Iterator[Array]:
    yield from reductions(loss)
    yield from reductions(loss + _stirling(target))
    yield from reductions(loss + log_gamma(target + 1))


def _poisson(rate: Array, target: Array, eps: float) -> Iterator[Array]:
    for r in (rate, rate + eps, np.maximum(rate, eps)):
        yield from _counts(rate - target * np.log(r), target)


def _poisson_log(log_rate: Array, target: Array) -> Iterator[Array]:
    yield from _counts(np.exp(log_rate) - target * log_rate, target)


def _poisson_deviance(rate: Array, target: Array, eps: float) -> Iterator[Array]:
    for e in (0.0, eps):
        yield from reductions(target * np.log((target + e) / (rate + e)) - (target - rate))


def _gamma(shape: Array, rate: Array, target: Array) -> Iterator[Array]:
    loss = rate * target - (shape - 1) * np.log(target)
    yield from reductions(loss - shape * np.log(rate) + log_gamma(shape))


def _negative_binomial(
    expected: Array, dispersion: Array, target: Array, eps: float
) -> Iterator[Array]:
    r, k = dispersion, target
    for e in (0.0, eps):
        total = np.log(r + expected + e)
        terms = r * (np.log(r + e) - total) + k * (np.log(expected + e) - total)
        loss = log_gamma(r) - log_gamma(k + r) - terms
        yield from reductions(loss)
        yield from reductions(loss + log_gamma(k + 1))


def _evidential(
    mean: Array, nu: Array, alpha: Array, beta: Array, target: Array
) -> Iterator[Array]:
    omega = 2 * beta * (1 + nu)
    loss = 0.5 * np.log(np.pi / nu) - alpha * np.log(omega)
    loss = loss + (alpha + 0.5) * np.log((target - mean) ** 2 * nu + omega)
    yield from reductions(loss + log_gamma(alpha) - log_gamma(alpha + 0.5))


def _evidential_penalty(mean: Array, nu: Array, alpha: Array, target: Array) -> Iterator[Array]:
    off = np.abs(target - mean)
    yield from reductions(off * (2 * nu + alpha))
    yield from reductions(off * (2 * alpha + nu))


def _evidential_classes(evidence: Array, target: Array) -> Iterator[Array]:
    """By squares, or by the likelihood; evidence as it is, or of what the network gives."""
    for e in (evidence, np.maximum(evidence, 0), softplus(evidence), np.exp(evidence)):
        alpha = e + 1
        total = alpha.sum(axis=-1, keepdims=True)
        p = alpha / total
        yield from reductions((target - p) ** 2 + p * (1 - p) / (total + 1))
        yield from reductions(((target - p) ** 2 + p * (1 - p) / (total + 1)).sum(axis=-1))
        yield from reductions(target * (np.log(total) - np.log(alpha)))


def _mixture(log_weight: Array, mean: Array, log_std: Array, target: Array) -> Iterator[Array]:
    """Weights that sum to 1; the rows give logits or probabilities, deviations or logarithms."""
    off = (target[:, None] - mean) * np.exp(-log_std)
    each = log_weight - 0.5 * off**2 - log_std
    yield from totals(-log_sum_exp(each))
    yield from totals(-log_sum_exp(each) + 0.5 * _LOG_TAU)


def _mixture_logits(logits: Array, mean: Array, std: Array, target: Array) -> Iterator[Array]:
    yield from _mixture(log_softmax(logits), mean, np.log(std), target)


def _mixture_log_std(logits: Array, mean: Array, log_std: Array, target: Array) -> Iterator[Array]:
    yield from _mixture(log_softmax(logits), mean, log_std, target)


def _mixture_probabilities(
    probability: Array, mean: Array, std: Array, target: Array
) -> Iterator[Array]:
    yield from _mixture(np.log(probability), mean, np.log(std), target)


def _multivariate(x: Array, mean: Array, covariance: Array) -> Iterator[Array]:
    off = x - mean
    square = np.einsum("nd,nd->n", off, np.linalg.solve(covariance, off.T).T)
    loss = 0.5 * (square + np.linalg.slogdet(covariance)[1])
    yield from totals(loss)
    yield from totals(loss + 0.5 * x.shape[1] * _LOG_TAU)


def _process(target: Array, kernel: Array, noise: float) -> Iterator[Array]:
    """Noise as a variance or as a deviation."""
    for k in (
        kernel,
        kernel + noise * np.eye(len(target)),
        kernel + noise**2 * np.eye(len(target)),
    ):
        loss = 0.5 * target @ np.linalg.solve(k, target) + 0.5 * np.linalg.slogdet(k)[1]
        yield from (np.asarray(loss), np.asarray(loss + 0.5 * len(target) * _LOG_TAU))


_NLL = ("nll", "gaussian*", "likelihood", "logprob", "logpdf", "logp")
_LOG = ("logvar*", "logvariance", "logstd", "logsigma")
_NIX = (
    "Nix and Weigend, Estimating the mean and variance of the target probability distribution, 1994"
)
_MDN = ("mdn*", "mixture*", "gmm")
_BISHOP = "Bishop, Mixture density networks, 1994"

ROWS = (
    Formula("Gaussian likelihood by log-variance", (*_NLL, *_LOG),
            "mean[*], log_variance[*], target[*]", _gaussian_log_variance, _NIX, "factor"),
    Formula("Gaussian likelihood by variance", (*_NLL, *_LOG),
            "mean[*], variance[*], target[*], eps[]", _gaussian_variance, _NIX, "factor"),
    Formula("Gaussian likelihood by deviation", (*_NLL, *_LOG),
            "mean[*], std[*], target[*], eps[]", _gaussian_std, _NIX, "factor"),
    Formula("Gaussian likelihood by log-deviation", (*_NLL, *_LOG),
            "mean[*], log_std[*], target[*]", _gaussian_log_std, _NIX, "factor"),
    Formula("Gaussian likelihood of one deviation", (*_NLL, *_LOG),
            "mean[*], target[*], std[]", _gaussian_one_std, _NIX, "factor"),
    Formula("Gaussian likelihood of shared log-deviations", (*_NLL, *_LOG),
            "mean[n d], log_std[d], target[n d]", _gaussian_shared_log_std, _NIX, "factor"),
    Formula("beta-NLL", ("beta", "betanll"), "mean[*], variance[*], target[*], beta[]",
            _beta_nll, "Seitzer et al., On the pitfalls of heteroscedastic uncertainty "
            "estimation, 2022", "factor"),
    Formula("Laplace likelihood", ("laplace*", "nll"), "location[*], scale[*], target[*]",
            _laplace, "Laplace 1774", "factor"),
    Formula("Laplace likelihood by log-scale", ("laplace*", "nll"),
            "location[*], log_scale[*], target[*]", _laplace_log, "Laplace 1774", "factor"),
    Formula("Student's t likelihood", ("student*", "dof", "freedom", "nu"),
            "location[*], scale[*], target[*], freedom[]", _student,
            "Student, The probable error of a mean, 1908", "factor"),
    Formula("log-normal likelihood", ("lognormal*",), "mean[*], std[*], target[*]",
            _log_normal, "Johnson, Kotz and Balakrishnan, Continuous univariate distributions, "
            "1994, chapter 14", "factor"),
    Formula("Poisson likelihood", ("poisson*", "rate*", "counts"),
            "rate[*], target[*], eps[]", _poisson, "Poisson 1837; PyTorch, PoissonNLLLoss",
            "factor"),
    Formula("Poisson likelihood by log-rate", ("poisson*", "rate*", "counts"),
            "log_rate[*], target[*]", _poisson_log, "Poisson 1837; PyTorch, PoissonNLLLoss",
            "factor"),
    Formula("Poisson deviance", ("poisson*", "deviance"), "rate[*], target[*], eps[]",
            _poisson_deviance, "McCullagh and Nelder, Generalized linear models, 1989", "factor"),
    Formula("gamma likelihood", ("gammanll*", "gammalog*", "gammaloss*"),
            "shape[*], rate[*], target[*]", _gamma, "Johnson, Kotz and Balakrishnan, Continuous "
            "univariate distributions, 1994, chapter 17", "factor"),
    Formula("negative binomial likelihood", ("nb", "negbin*", "binomial", "dispersion", "theta"),
            "expected[*], dispersion[*], target[*], eps[]", _negative_binomial,
            "Lopez et al., Deep generative modeling for single-cell transcriptomics, 2018",
            "factor"),
    Formula("evidential regression likelihood", ("evidential*", "nig", "evidence"),
            "mean[*], nu[*], alpha[*], beta[*], target[*]", _evidential,
            "Amini et al., Deep evidential regression, 2020, equation 8", "factor"),
    Formula("evidential regression penalty", ("evidential*", "nig", "evidence"),
            "mean[*], nu[*], alpha[*], target[*]", _evidential_penalty,
            "Amini et al., Deep evidential regression, 2020, equation 9", "factor"),
    Formula("evidential classification loss", ("evidential*", "evidence", "edl", "dirichlet"),
            "evidence[n c], target[n c]", _evidential_classes, "Sensoy, Kaplan and Kandemir, "
            "Evidential deep learning to quantify classification uncertainty, 2018", "factor"),
    Formula("mixture density likelihood", _MDN,
            "logits[n k], mean[n k], std[n k], target[n]", _mixture_logits, _BISHOP, "factor"),
    Formula("mixture density likelihood by log-deviation", _MDN,
            "logits[n k], mean[n k], log_std[n k], target[n]", _mixture_log_std, _BISHOP,
            "factor"),
    Formula("mixture density likelihood by probabilities", _MDN,
            "p[n k], mean[n k], std[n k], target[n]", _mixture_probabilities, _BISHOP,
            "factor"),
    Formula("multivariate normal likelihood", ("multivariate", "mvn", "cov*", "precision",
            "cholesky", "mahalanobis"), "x[n d], mean[d], covariance[d d]", _multivariate,
            "Bishop, Pattern recognition and machine learning, 2006, equation 2.43", "factor"),
    Formula("marginal likelihood of a Gaussian process", ("gp", "marginal", "mll", "kernel*"),
            "target[n], kernel[n n], noise[]", _process, "Rasmussen and Williams, Gaussian "
            "processes for machine learning, 2006, equation 2.30", "factor"),
)  # fmt: skip
"""Rows of this theme."""
