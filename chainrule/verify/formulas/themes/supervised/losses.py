"""Losses of numbers: what a prediction is off by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import reductions, relu


def _squared(prediction: Array, target: Array) -> Iterator[Array]:
    error = (prediction - target) ** 2
    yield from reductions(error)
    yield from (np.sqrt(x) for x in reductions(error))
    yield from (np.log(x) for x in reductions(error))


def _absolute(prediction: Array, target: Array) -> Iterator[Array]:
    yield from reductions(np.abs(prediction - target))


def _power(prediction: Array, target: Array, power: float) -> Iterator[Array]:
    yield from reductions(np.abs(prediction - target) ** power)


def _weighted(prediction: Array, target: Array, weights: Array) -> Iterator[Array]:
    w = weights.reshape(*weights.shape, *[1] * (prediction.ndim - weights.ndim))
    for loss in (w * (prediction - target) ** 2, w * np.abs(prediction - target)):
        yield from reductions(loss)
        yield loss.sum() / w.sum()


def _uncertain(losses: Array, log_variance: Array) -> Iterator[Array]:
    """Tasks with a log-variance each: of regression, of classification, of both alike."""
    for s in (log_variance, 2 * log_variance):
        for share in (0.5, 1.0):
            for half in (0.5, 1.0):
                each = share * np.exp(-s) * losses + half * s
                yield from (each, each.sum(), each.mean())
    yield (losses * np.exp(-2 * log_variance) / 2 + np.log1p(np.exp(2 * log_variance))).sum()


def _percentage(prediction: Array, target: Array, eps: float) -> Iterator[Array]:
    error = np.abs(prediction - target)
    for below in (np.abs(target), np.abs(target) + eps, np.abs(target + eps)):
        yield from reductions(error / below)
    yield from reductions(error / np.maximum(np.abs(target), eps))


def _symmetric_percentage(prediction: Array, target: Array, eps: float) -> Iterator[Array]:
    error, size = np.abs(prediction - target), np.abs(prediction) + np.abs(target)
    for below in (size, size + eps, size / 2 + eps, np.abs(prediction + target)):
        yield from reductions(error / below)


def _log_squared(prediction: Array, target: Array) -> Iterator[Array]:
    for log in (np.log1p, np.log):
        error = (log(prediction) - log(target)) ** 2
        yield from reductions(error)
        yield from (np.sqrt(x) for x in reductions(error))


def _determination(prediction: Array, target: Array, eps: float) -> Iterator[Array]:
    for axis in (None, 0):
        left = ((target - prediction) ** 2).sum(axis=axis)
        all_ = ((target - target.mean(axis=axis)) ** 2).sum(axis=axis)
        for below in (all_, all_ + eps):
            yield from (1 - left / below, (1 - left / below).mean(), left / below)


def _explained_variance(prediction: Array, target: Array, eps: float) -> Iterator[Array]:
    for axis in (None, 0):
        left, all_ = (target - prediction).var(axis=axis), target.var(axis=axis)
        for below in (all_, all_ + eps):
            yield from (1 - left / below, (1 - left / below).mean())


def _huber(prediction: Array, target: Array, delta: float) -> Iterator[Array]:
    """Smooth L1 is it divided by delta."""
    e = np.abs(prediction - target)
    yield from reductions(np.where(e <= delta, 0.5 * e**2, delta * (e - 0.5 * delta)))


def _log_cosh(prediction: Array, target: Array) -> Iterator[Array]:
    e = prediction - target
    both = np.logaddexp(e, -e)
    yield from reductions(both - np.log(2.0))
    yield from reductions(both)


def _charbonnier(prediction: Array, target: Array, eps: float) -> Iterator[Array]:
    """The number is squared or not; pseudo-Huber is it less the number, times the number."""
    square = (prediction - target) ** 2
    for below in (eps**2, eps):
        yield from reductions(np.sqrt(square + below))
        yield from reductions(np.sqrt(square + below) - np.sqrt(below))


def _robust(prediction: Array, target: Array, alpha: float, c: float) -> Iterator[Array]:
    """For shapes but 0 and 2."""
    b = abs(alpha - 2)
    square = ((prediction - target) / c) ** 2
    yield from reductions(b / alpha * ((square / b + 1) ** (alpha / 2) - 1))


def _cauchy(prediction: Array, target: Array, c: float) -> Iterator[Array]:
    for scale in (c, np.sqrt(2) * c, np.sqrt(c)):
        yield from reductions(np.log1p(((prediction - target) / scale) ** 2))


def _tukey(prediction: Array, target: Array, c: float) -> Iterator[Array]:
    inner = relu(1 - ((prediction - target) / c) ** 2)
    yield from reductions(1 - inner**3)


def _pinball(prediction: Array, target: Array, quantile: float) -> Iterator[Array]:
    e = target - prediction
    yield from reductions(np.maximum(quantile * e, (quantile - 1) * e))


def _pinballs(prediction: Array, target: Array, quantiles: Array) -> Iterator[Array]:
    e = target[:, None] - prediction
    yield from reductions(np.maximum(quantiles * e, (quantiles - 1) * e))


def _expectile(prediction: Array, target: Array, expectile: float) -> Iterator[Array]:
    e = target - prediction
    yield from reductions(np.where(e > 0, expectile, 1 - expectile) * e**2)


def _interval(lower: Array, upper: Array, target: Array, alpha: float) -> Iterator[Array]:
    out = relu(lower - target) + relu(target - upper)
    yield from reductions(upper - lower + 2 / alpha * out)


def _epsilon_insensitive(prediction: Array, target: Array, margin: float) -> Iterator[Array]:
    out = relu(np.abs(prediction - target) - margin)
    yield from reductions(out)
    yield from reductions(out**2)


def _scale_invariant(prediction: Array, target: Array, share: float) -> Iterator[Array]:
    """Of depths or of their logarithms; the mean is that of all or of each image."""
    for p, t in ((prediction, target), (np.log(prediction), np.log(target))):
        d = p - t
        for rows in (d.reshape(1, -1), d.reshape(len(d), -1)):
            each = (rows**2).mean(axis=1) - share * rows.mean(axis=1) ** 2
            yield from (each, each.mean(), np.sqrt(each), np.sqrt(each).mean())


def _masked_mean(values: Array, mask: Array, eps: float) -> Iterator[Array]:
    for axis in (None, -1, 0):
        top, count = (values * mask).sum(axis=axis), mask.sum(axis=axis)
        for below in (count, np.maximum(count, 1), count + eps, np.maximum(count, eps)):
            yield from (top / below, (top / below).mean())


_ERRORS = ("mse", "rmse", "mae", "l1", "l2", "squared", "absolute")
_PAIR = "prediction[*], target[*]"

ROWS = (
    Formula("squared error", ("mse", "rmse", "sse", "l2", "squared"), _PAIR, _squared,
            "Gauss, Theoria combinationis, 1821", "factor"),
    Formula("absolute error", ("mae", "l1", "absolute"), _PAIR, _absolute,
            "Boscovich 1757, Laplace 1774", "factor"),
    Formula("absolute percentage error", ("mape", "percentage"), f"{_PAIR}, eps[]", _percentage,
            "Hyndman and Koehler, Another look at measures of forecast accuracy, 2006", "factor"),
    Formula("symmetric absolute percentage error", ("smape",), f"{_PAIR}, eps[]",
            _symmetric_percentage, "Makridakis and Hibon, The M3-Competition, 2000", "factor"),
    Formula("squared logarithmic error", ("msle", "rmsle", "sle"), _PAIR, _log_squared,
            "scikit-learn, mean_squared_log_error", "factor"),
    Formula("coefficient of determination", ("r2", "r2score", "rsquared", "determination", "nse"),
            f"{_PAIR}, eps[]", _determination, "Wright, Correlation and causation, 1921"),
    Formula("explained variance", ("explained", "ev"), f"{_PAIR}, eps[]", _explained_variance,
            "scikit-learn, explained_variance_score"),
    Formula("Huber loss", ("huber*", "smooth", "smoothl1*"), f"{_PAIR}, delta[]", _huber,
            "Huber, Robust estimation of a location parameter, 1964", "factor"),
    Formula("log-cosh loss", ("logcosh*", "cosh"), _PAIR, _log_cosh,
            "Saleh and Saleh, Statistical properties of the log-cosh loss function, 2022",
            "factor"),
    Formula("Charbonnier loss", ("charbonnier*", "pseudo", "pseudohuber*"), f"{_PAIR}, eps[]",
            _charbonnier, "Charbonnier et al., Two deterministic half-quadratic regularization "
            "algorithms for computed imaging, 1994", "factor"),
    Formula("Barron's robust loss", ("robust", "barron*", "adaptive"), f"{_PAIR}, alpha[], c[]",
            _robust, "Barron, A general and adaptive robust loss function, 2019, equation 1",
            "factor"),
    Formula("Cauchy loss", ("cauchy*", "lorentz*", "welsch*"), f"{_PAIR}, c[]", _cauchy,
            "Black and Anandan, The robust estimation of multiple motions, 1996", "factor"),
    Formula("Tukey's biweight loss", ("tukey*", "biweight*", "bisquare*"), f"{_PAIR}, c[]",
            _tukey, "Beaton and Tukey, The fitting of power series, 1974", "factor"),
    Formula("pinball loss", ("pinball*", "quantile*"), f"{_PAIR}, quantile[]", _pinball,
            "Koenker and Bassett, Regression quantiles, 1978", "factor"),
    Formula("pinball loss", ("pinball*", "quantile*"),
            "prediction[n q], target[n], quantiles[q]", _pinballs,
            "Koenker and Bassett, Regression quantiles, 1978", "factor"),
    Formula("expectile loss", ("expectile*", "iql*"), f"{_PAIR}, expectile[]", _expectile,
            "Newey and Powell, Asymmetric least squares estimation and testing, 1987", "factor"),
    Formula("interval score", ("interval*", "winkler*"),
            "lower[*], upper[*], target[*], alpha[]", _interval,
            "Gneiting and Raftery, Strictly proper scoring rules, 2007", "factor"),
    Formula("epsilon-insensitive loss", ("insensitive", "svr", "tube"), f"{_PAIR}, margin[]",
            _epsilon_insensitive, "Vapnik, The nature of statistical learning theory, 1995",
            "factor"),
    Formula("scale-invariant logarithmic error", ("silog*", "invariant"), f"{_PAIR}, share[]",
            _scale_invariant, "Eigen, Puhrsch and Fergus, Depth map prediction from a single "
            "image, 2014", "factor"),
    Formula("mean over a mask", ("mask*", "valid*", "pad*"), "values[*], mask[*]:bool, eps[]",
            _masked_mean, "the arithmetic mean of what is not masked", "factor"),
    Formula("power of errors", ("lp", "power", "pnorm", *_ERRORS), f"{_PAIR}, power[]", _power,
            "Rice, The approximation of functions, 1964", "factor"),
    *(Formula("weighted error", ("weight*", "importance", *_ERRORS), takes, _weighted,
              "Aitken, On least squares and linear combination of observations, 1935", "factor")
      for takes in (f"{_PAIR}, weights[*]", "prediction[n c], target[n c], weights[n]")),
    Formula("losses weighed by uncertainty", ("uncertain*", "logvar*", "task*", "sigma*", "nll"),
            "losses[k], log_variance[k]", _uncertain, "Kendall, Gal and Cipolla, Multi-task "
            "learning using uncertainty to weigh losses, 2018, equation 7", "factor"),
)  # fmt: skip
"""Rows of this theme."""
