"""Log-likelihoods, by SciPy and PyTorch."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy import stats
from scipy.special import logsumexp, softmax, xlogy
from torch.distributions import Categorical, MixtureSameFamily, Normal

from tests.verify.formulas.torch_calls import by_torch, tensors


def _normal(mean, std, t):
    logs = -stats.norm.logpdf(t, mean, std)
    yield from (logs, logs.sum(axis=-1), logs.mean(), logs.sum(axis=-1).mean())


def by_variance(mean, variance, t, eps):
    yield from _normal(mean, np.sqrt(variance), t)
    m, y, v = tensors(mean, t, variance)
    for full in (False, True):
        yield F.gaussian_nll_loss(m, y, v, full=full, eps=eps).numpy()


def one_std(mean, t, std):
    yield from _normal(mean, std, t)
    yield 0.5 * ((t - mean) ** 2).mean()


def beta_nll(mean, variance, t, beta):
    """As the authors': the likelihood, times the variance to a power that is held constant."""
    m, y, v = tensors(mean, t, variance)
    each = F.gaussian_nll_loss(m, y, v, reduction="none")
    yield (each * v.detach() ** beta).mean().numpy()


def negative_binomial(mean, r, t, eps):
    """In SciPy `p` is `r / (r + mean)`, for whole counts; by their recursion else."""
    k = np.round(3 * t)
    whole = -stats.nbinom.logpmf(k, r, r / (r + mean))
    own = _negative_binomial(mean, r, k)
    assert np.allclose(own, whole)
    yield _negative_binomial(mean, r, t)


def _negative_binomial(mean, r, t):
    total = torch.lgamma(torch.tensor(r + t)) - torch.lgamma(torch.tensor(r))
    p = torch.tensor(mean / (mean + r))
    logs = total - torch.lgamma(torch.tensor(t + 1))
    return -(logs + torch.tensor(r) * torch.log1p(-p) + torch.tensor(t) * p.log()).numpy()


def evidential(mean, nu, alpha, beta, t):
    """A Student's t of location mean, scale² beta (1 + nu) / (nu alpha), 2 alpha degrees."""
    scale = np.sqrt(beta * (1 + nu) / (nu * alpha))
    yield -stats.t.logpdf(t, 2 * alpha, mean, scale)


def evidential_classes(evidence, t):
    """The mean over the Dirichlet distribution of the squared error."""
    expected = []
    for e, y in zip(evidence, t, strict=True):
        d = stats.dirichlet(e + 1)
        expected.append(((y - d.mean()) ** 2 + d.var()).sum())
    yield np.array(expected)


def mixture(logits, mean, std, t):
    x, m, s, y = tensors(logits, mean, std, t)
    yield -MixtureSameFamily(Categorical(logits=x), Normal(m, s)).log_prob(y).mean().numpy()
    p = softmax(logits, axis=1)
    yield -np.log((p * np.exp(-0.5 * ((t[:, None] - mean) / std) ** 2) / std).sum(axis=1)).mean()


def cox(risk, time, event):
    """Each event: who of those still there has it."""
    total = 0.0
    for k in np.flatnonzero(event):
        there = [risk[j] for j in range(len(risk)) if time[j] >= time[k]]
        total += logsumexp(there) - risk[k]
    yield total / event.sum()


def cox_sorted(risk, event):
    yield from cox(risk, np.arange(len(risk), 0, -1), event)


def weibull(scale, shape, time, event):
    w = stats.weibull_min(shape, scale=scale)
    yield -np.where(event == 1, w.logpdf(time), w.logsf(time))


def discrete_survival(logits, labels, event):
    """The chance to live up to an interval, and to die in it or not."""
    h = 1 / (1 + np.exp(-logits))
    out = []
    for hazard, k, dies in zip(h, labels, event, strict=True):
        lived = np.prod(1 - hazard[:k])
        out.append(-np.log(lived * (hazard[k] if dies else 1 - hazard[k])))
    yield np.array(out)


def process(t, kernel, noise):
    for k in (kernel, kernel + noise**2 * np.eye(len(t))):
        yield -stats.multivariate_normal.logpdf(t, np.zeros(len(t)), k)


def gamma(shape, rate, t):
    yield -stats.gamma.logpdf(t, shape, scale=1 / rate)


def poisson_deviance(rate, t, eps):
    """Twice what the likelihood of the data's own rate is more."""
    yield 2 * (xlogy(t, t) - t - (xlogy(t, rate) - rate))


def poisson(rate, t, eps):
    r, y = tensors(rate, t)
    for full in (False, True):
        yield F.poisson_nll_loss(r, y, log_input=False, full=full, eps=eps).numpy()


def poisson_log(log_rate, t):
    yield from by_torch(F.poisson_nll_loss)(log_rate, t)
    yield from by_torch(F.poisson_nll_loss, full=True)(log_rate, t)


REFERENCES = {
    "Gaussian likelihood by log-variance": lambda m, v, t: _normal(m, np.exp(v / 2), t),
    "Gaussian likelihood by variance": by_variance,
    "Gaussian likelihood by deviation": lambda m, s, t, eps: _normal(m, s, t),
    "Gaussian likelihood by log-deviation": lambda m, s, t: _normal(m, np.exp(s), t),
    "Gaussian likelihood of one deviation": one_std,
    "Gaussian likelihood of shared log-deviations": lambda m, s, t: _normal(m, np.exp(s), t),
    "beta-NLL": beta_nll,
    "Laplace likelihood": lambda m, b, t: [-stats.laplace.logpdf(t, m, b)],
    "Laplace likelihood by log-scale": lambda m, b, t: [-stats.laplace.logpdf(t, m, np.exp(b))],
    "Student's t likelihood": lambda m, s, t, f: [-stats.t.logpdf(t, f, m, s)],
    "log-normal likelihood": lambda m, s, t: [-stats.lognorm.logpdf(t, s, scale=np.exp(m))],
    "Poisson likelihood": poisson,
    "Poisson likelihood by log-rate": poisson_log,
    "Poisson deviance": poisson_deviance,
    "gamma likelihood": gamma,
    "negative binomial likelihood": negative_binomial,
    "evidential regression likelihood": evidential,
    "evidential regression penalty": lambda m, nu, a, t: [np.abs(t - m) * (nu + nu + a)],
    "evidential classification loss": evidential_classes,
    "mixture density likelihood": mixture,
    "mixture density likelihood by log-deviation": lambda x, m, s, t: mixture(x, m, np.exp(s), t),
    "mixture density likelihood by probabilities": lambda p, m, s, t: mixture(np.log(p), m, s, t),
    "Cox partial likelihood": cox,
    "Cox partial likelihood of sorted times": cox_sorted,
    "Weibull likelihood of censored times": weibull,
    "discrete-time survival likelihood": discrete_survival,
    "multivariate normal likelihood": lambda x, m, c: [-stats.multivariate_normal.logpdf(x, m, c)],
    "marginal likelihood of a Gaussian process": process,
}
