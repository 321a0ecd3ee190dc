"""Averages, their updates, and measures of how alike two series are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula


def _average(average: Array, new: Array, decay: float) -> Iterator[Array]:
    yield decay * average + (1 - decay) * new


def _smoothed(x: Array, decay: float, start: Array) -> Array:
    rows, m = list[Array](), start
    for row in x:
        m = decay * m + (1 - decay) * row
        rows.append(m)
    return np.array(rows)


def _series(x: Array, decay: float) -> Iterator[Array]:
    """From 0 or from the first one; all or the last one; with or without its bias."""
    zero = _smoothed(x, decay, np.zeros_like(x[0]))
    first = _smoothed(x, decay, x[0])
    powers = 1 - decay ** np.arange(1, len(x) + 1)
    unbiased = zero / powers.reshape(-1, *[1] * (x.ndim - 1))
    for rows in (zero, first, unbiased):
        yield from (rows, rows[-1])


def _weights_of_age(x: Array, share: float) -> Iterator[Array]:
    """The share is that of the new one."""
    yield from _series(x, 1 - share)


def _unbiased(average: Array, decay: float, step: int) -> Iterator[Array]:
    yield average / (1 - decay**step)


def _moments(
    mean: Array, squares: Array, new: Array, count: float
) -> Iterator[tuple[Array, Array]]:
    """The count includes the new one, or not; `squares` is the sum of squared differences."""
    for n in (count, count + 1):
        next_mean = mean + (new - mean) / n
        yield next_mean, squares + (new - mean) * (new - next_mean)


def _merged(
    mean: Array, variance: Array, count: float, other_mean: Array, other_variance: Array,
    other_count: float,
) -> Iterator[Array | tuple[Array, Array]]:  # fmt: skip
    total = count + other_count
    off = other_mean - mean
    new_mean = mean + off * other_count / total
    both = variance * count + other_variance * other_count + off**2 * count * other_count / total
    yield from ((new_mean, both / total), new_mean, both / total)


def _mixed(x: Array, other: Array, share: float) -> Iterator[Array]:
    yield share * x + (1 - share) * other


def _mixed_loss(loss: Array, other_loss: Array, share: float) -> Iterator[Array]:
    each = share * loss + (1 - share) * other_loss
    yield from (each, each.mean())


def _structure(
    mean: Array, other_mean: Array, variance: Array, other_variance: Array, covariance: Array,
    c1: float, c2: float,
) -> Iterator[Array]:  # fmt: skip
    top = (2 * mean * other_mean + c1) * (2 * covariance + c2)
    share = top / ((mean**2 + other_mean**2 + c1) * (variance + other_variance + c2))
    yield from (share, 1 - share, share.mean(), 1 - share.mean())


def _whole_structure(x: Array, y: Array, c1: float, c2: float) -> Iterator[Array]:
    for ddof in (0, 1):
        c = np.cov(x.ravel(), y.ravel(), ddof=ddof)
        yield from _structure(x.mean(), y.mean(), c[0, 0], c[1, 1], c[0, 1], c1, c2)


def _noise_ratio(x: Array, y: Array, top: float) -> Iterator[Array]:
    axes = tuple(range(1, x.ndim))
    square = (x - y) ** 2
    for error in (square.mean(), square.mean(axis=axes) if axes else square.mean()):
        for low in (0.0, 1e-8, 1e-10):
            ratio = 10 * np.log10(top**2 / (error + low))
            yield from (ratio, ratio.mean())


def _signal_ratio(x: Array, y: Array, eps: float) -> Iterator[Array]:
    """Scale-invariant, of an estimate and its target along the last axis, in decibels."""
    for a, b in ((x, y), *[[z - z.mean(axis=-1, keepdims=True) for z in (x, y)]]):
        for e in (0.0, eps):
            scale = (a * b).sum(axis=-1, keepdims=True) / ((b**2).sum(axis=-1, keepdims=True) + e)
            part = scale * b
            below = ((a - part) ** 2).sum(axis=-1) + e
            ratio = 10 * np.log10((part**2).sum(axis=-1) / below + e)
            yield from (ratio, ratio.mean())


def _correlation(x: Array, y: Array, eps: float) -> Iterator[Array]:
    """Of all numbers, of columns or of rows."""
    for axis in (None, 0, -1):
        a, b = (z - z.mean(axis=axis, keepdims=True) for z in (x, y))
        top = (a * b).sum(axis=axis)
        below = np.sqrt((a**2).sum(axis=axis) * (b**2).sum(axis=axis))
        for r in (top / below, top / (below + eps)):
            yield from (r, 1 - r, r.mean(), 1 - r.mean())


def _concordance(x: Array, y: Array) -> Iterator[Array]:
    for ddof in (0, 1):
        c = np.cov(x.ravel(), y.ravel(), ddof=ddof)
        r = 2 * c[0, 1] / (c[0, 0] + c[1, 1] + (x.mean() - y.mean()) ** 2)
        yield from (np.asarray(r), np.asarray(1 - r))


def _covariances(x: Array) -> Iterator[Array]:
    """Rows are observations, or columns."""
    for z in (x, x.T):
        off = z - z.mean(axis=0)
        yield from (off.T @ off / len(z), off.T @ off / (len(z) - 1))


def _correlations(x: Array) -> Iterator[Array]:
    for c in _covariances(x):
        d = np.sqrt(np.diagonal(c))
        yield c / np.outer(d, d)


def _weighted(x: Array, weights: Array, eps: float) -> Iterator[Array]:
    for axis in (None, 0, -1):
        top, below = (x * weights).sum(axis=axis), weights.sum(axis=axis)
        yield from (top / below, top / (below + eps))


def _moving(x: Array, width: int) -> Iterator[Array]:
    w = int(width)
    if x.ndim == 1 and 0 < w <= len(x):
        ends = np.cumsum(np.concatenate([[0.0], x]))
        yield (ends[w:] - ends[:-w]) / w


def _geometric(x: Array) -> Iterator[Array]:
    for axis in (None, -1):
        yield np.exp(np.log(x).mean(axis=axis))


def _harmonic(x: Array) -> Iterator[Array]:
    for axis in (None, -1):
        yield 1 / (1 / x).mean(axis=axis)


def _sharpe(returns: Array, eps: float) -> Iterator[Array]:
    for ddof in (0, 1):
        for axis in (None, 0, -1):
            s = returns.std(axis=axis, ddof=ddof)
            for below in (s, s + eps):
                yield from (
                    returns.mean(axis=axis) / below,
                    (returns.mean(axis=axis) / below).mean(),
                )


def _reparameterized(mean: Array, log_variance: Array, noise: Array) -> Iterator[Array]:
    yield mean + np.exp(0.5 * log_variance) * noise


def _reparameterized_deviation(mean: Array, log_std: Array, noise: Array) -> Iterator[Array]:
    yield mean + np.exp(log_std) * noise


def _importance_bound(log_joint: Array, log_proposal: Array) -> Iterator[Array]:
    """Samples are the last axis, or the first."""
    w = log_joint - log_proposal
    for axis in (-1, 0):
        each = np.logaddexp.reduce(w, axis=axis) - np.log(w.shape[axis])
        yield from (each, each.mean())


def _share_of_latents(log_q: Array) -> Iterator[Array]:
    """Effective sample size of log-weights."""
    w = np.exp(log_q - log_q.max(axis=-1, keepdims=True))
    w = w / w.sum(axis=-1, keepdims=True)
    yield 1 / (w**2).sum(axis=-1)
    yield 1 / (w**2).sum(axis=-1) / w.shape[-1]


_POLYAK = "Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992"
_EMA = ("ema*", "average*", "avg*", "smooth*", "moving")
_KINGMA = "Kingma and Ba, Adam, 2015, section 3"
_WANG = "Wang et al., Image quality assessment, 2004"
_ZHANG = "Zhang et al., mixup, 2018"
_ALL = "x[*], y[*]"
_CORR = ("corr", "correlation*", "corrcoef")

ROWS = (
    Formula("exponential average", _EMA, "average[*], new[*], decay[]", _average, _POLYAK),
    *(Formula("exponential averages of a series", _EMA, takes, _series, _KINGMA)
      for takes in ("x[t], decay[]", "x[t d], decay[]")),
    Formula("exponential averages of a series by the new share", (*_EMA, "alpha"),
            "x[t], share[]", _weights_of_age, _KINGMA),
    Formula("average without bias", ("bias*", "corrected*", "hat*", "ema*"),
            "average[*], decay[], step[]:int", _unbiased, _KINGMA),
    Formula("update of mean and squares", ("welford*", "m2", "count", "running*", "delta*"),
            "mean[*], squares[*], new[*], count[]", _moments,
            "Welford, Note on a method for calculating corrected sums of squares, 1962"),
    Formula("means and variances merged", ("merge*", "batch*", "running*", "moments", "parallel",
            "rms", "count"), "mean[*], variance[*], count[], other_mean[*], other_variance[*], "
            "other_count[]", _merged,
            "Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm, 1979"),
    Formula("mixup", ("mixup*", "mixed*", "mix"), "x[*], other[*], share[]", _mixed,
            _ZHANG),
    Formula("loss of mixup", ("mixup*", "mixed*", "cutmix*"),
            "loss[*], other_loss[*], share[]", _mixed_loss, _ZHANG, "factor"),
    Formula("structural similarity", ("ssim*",),
            "mean[*], other_mean[*], variance[*], other_variance[*], covariance_of[*], c1[], c2[]",
            _structure, f"{_WANG}, equation 13"),
    Formula("structural similarity of whole images", ("ssim*",), f"{_ALL}, c1[], c2[]",
            _whole_structure, f"{_WANG}, equation 13"),
    Formula("peak signal-to-noise ratio", ("psnr*",), f"{_ALL}, top[]", _noise_ratio,
            "ITU-T J.340; scikit-image, peak_signal_noise_ratio", "factor"),
    Formula("correlation", (*_CORR, "pearson*", "pcc", "ncc"), f"{_ALL}, eps[]", _correlation,
            "Pearson 1896", "factor"),
    Formula("concordance", ("ccc*", "concordance*"), _ALL, _concordance,
            "Lin, A concordance correlation coefficient to evaluate reproducibility, 1989",
            "factor"),
    Formula("covariance matrix", ("cov*", "covariance*"), "x[n d]", _covariances, "Pearson 1901",
            "scale"),
    Formula("correlation matrix", _CORR, "x[n d]", _correlations, "Pearson 1896"),
    Formula("weighted mean", ("weight*",), "x[*], weights[*], eps[]", _weighted,
            "the mean of what weighs differently"),
    Formula("moving average", ("moving*", "rolling*", "window*"), "x[t], width[]:int", _moving,
            "Yule 1909"),
    Formula("geometric mean", ("geometric*", "gmean", "geo*"), "amounts[*]", _geometric, "Euclid"),
    Formula("harmonic mean", ("harmonic*", "hmean"), "amounts[*]", _harmonic, "Archytas"),
    Formula("Sharpe ratio", ("sharpe*",), "returns[*], eps[]", _sharpe,
            "Sharpe, The Sharpe ratio, 1994", "factor"),
    Formula("sample by mean and log-variance", ("reparam*", "logvar*"),
            "mean[*], log_variance[*], noise[*]", _reparameterized,
            "Kingma and Welling, Auto-encoding variational Bayes, 2014, section 2.4"),
    Formula("sample by mean and log-deviation", ("logstd*", "logsigma*", "logscale*", "logdev*"),
            "mean[*], log_std[*], noise[*]", _reparameterized_deviation,
            "Kingma and Welling, Auto-encoding variational Bayes, 2014, section 2.4"),
    Formula("importance weighted bound", ("iwae*", "importance", "elbo", "bound"),
            "log_joint[*], log_proposal[*]", _importance_bound,
            "Burda, Grosse and Salakhutdinov, Importance weighted autoencoders, 2016, equation 8",
            "factor"),
    Formula("effective sample size", ("ess*", "effective"), "log_weights[*]", _share_of_latents,
            "Kong, A note on importance sampling using standardized weights, 1992"),
    Formula("scale-invariant signal-to-noise ratio", ("sisnr*", "sisdr*", "snr", "sdr"),
            f"{_ALL}, eps[]", _signal_ratio,
            "Le Roux et al., SDR: half-baked or well done?, 2019", "factor"),
)  # fmt: skip
"""Rows of this theme."""
