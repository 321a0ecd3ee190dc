"""Invertible maps, with the logarithms of their determinants."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import reductions, sigmoid, softplus

_LOG_TAU = float(np.log(2 * np.pi))
Mapped = tuple[Array, Array]


def _coupling(x: Array, log_scale: Array, shift: Array) -> Iterator[Array | Mapped]:
    """Scaled and shifted, or shifted and scaled."""
    total = log_scale.sum(axis=-1)
    for y in (x * np.exp(log_scale) + shift, (x + shift) * np.exp(log_scale)):
        yield from (y, (y, total))


def _coupling_inverse(y: Array, log_scale: Array, shift: Array) -> Iterator[Array | Mapped]:
    total = -log_scale.sum(axis=-1)
    for x in ((y - shift) * np.exp(-log_scale), y * np.exp(-log_scale) - shift):
        yield from (x, (x, total))


def _planar_direction(u: Array, w: Array) -> Iterator[Array]:
    """As it is, or so that the map can be inverted."""
    yield u
    yield u + (softplus(w @ u) - 1 - w @ u) * w / (w @ w)


def _planar(z: Array, u: Array, w: Array, b: float) -> Iterator[Array | Mapped]:
    for v in _planar_direction(u, w):
        h = np.tanh(z @ w + b)
        y = z + v * h[:, None]
        yield from (y, (y, np.log(np.abs(1 + (1 - h**2) * (w @ v)))))


def _planar_volume(z: Array, u: Array, w: Array, b: float, eps: float) -> Iterator[Array]:
    for v in _planar_direction(u, w):
        for e in (0.0, eps):
            yield np.log(np.abs(1 + (1 - np.tanh(z @ w + b) ** 2) * (w @ v)) + e)


def _radial(z: Array, center: Array, alpha: float, beta: float) -> Iterator[Array | Mapped]:
    """Beta as it is, or as -alpha + softplus(beta)."""
    r = np.sqrt(((z - center) ** 2).sum(axis=-1))
    h, d = 1 / (alpha + r), z.shape[-1]
    for b in (beta, -alpha + float(softplus(beta))):
        y = z + b * h[:, None] * (z - center)
        volume = (d - 1) * np.log(1 + b * h) + np.log(1 + b * h - b * r * h**2)
        yield from (y, volume, (y, volume))


def _logit(x: Array, edge: float) -> Iterator[Array | Mapped]:
    """The ends are kept off, on both sides or on one."""
    for scale in (1 - 2 * edge, 1 - edge):
        p = edge + scale * x
        y = np.log(p) - np.log(1 - p)
        volume = -np.log(p) - np.log(1 - p)
        yield from (y, (y, volume.sum(axis=-1)), (y, (volume + np.log(scale)).sum(axis=-1)))


def _sigmoid_volume(x: Array) -> Iterator[Array]:
    each = -softplus(x) - softplus(-x)
    yield from (each, each.sum(axis=-1), each.mean(), np.log(sigmoid(x)) + np.log(1 - sigmoid(x)))


def _tanh_volume(x: Array) -> Iterator[Array]:
    each = 2 * (np.log(2.0) - x - softplus(-2 * x))
    yield from (each, each.sum(axis=-1), each.mean())


def _standard_normal(x: Array) -> Iterator[Array]:
    yield from reductions(0.5 * (x**2 + _LOG_TAU))


def _flow_likelihood(z: Array, volume: Array) -> Iterator[Array]:
    """The logarithm of the determinant of the map from data to noise."""
    for constant in (0.0, 0.5 * _LOG_TAU):
        yield from reductions((0.5 * z**2 + constant).sum(axis=-1) - volume)


def _bits(nll: Array, size: int, levels: int) -> Iterator[Array]:
    """Per number, of data in so many levels or without."""
    own = nll / (size * np.log(2.0))
    for x in (own, own + np.log2(levels)):
        yield from (x, x.mean())


def _actnorm(x: Array, log_scale: Array, bias: Array) -> Iterator[Array]:
    yield (x + bias) * np.exp(log_scale)
    yield x * np.exp(log_scale) + bias


_DINH = "Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP, 2017"
_REZENDE = "Rezende and Mohamed, Variational inference with normalizing flows, 2015"
_AFFINE = ("coupling*", "flow*", "logdet*", "nvp", "realnvp", "maf", "iaf")

ROWS = (
    Formula("affine coupling", _AFFINE, "x[n d], log_scale[n d], shift[n d]", _coupling,
            f"{_DINH}, equation 7"),
    Formula("inverse of affine coupling", (*_AFFINE, "inverse*", "invert*"),
            "y[n d], log_scale[n d], shift[n d]", _coupling_inverse, f"{_DINH}, equation 8"),
    Formula("planar flow", ("planar*", "flow*"), "z[n d], u[d], w[d], b[]", _planar,
            f"{_REZENDE}, equation 10"),
    Formula("log-determinant of a planar flow", ("planar*", "logdet*", "det*"),
            "z[n d], u[d], w[d], b[], eps[]", _planar_volume, f"{_REZENDE}, equation 12"),
    Formula("radial flow", ("radial*",), "z[n d], center[d], alpha[], beta[]", _radial,
            f"{_REZENDE}, equation 14"),
    Formula("logits of data", ("logit*", "dequant*"), "pixels[n d], edge[]", _logit,
            f"{_DINH}, section 4.1"),
    Formula("log-slope of the logistic function", ("sigmoid*", "logdet*", "logistic", "ldj"),
            "x[*]", _sigmoid_volume, f"{_DINH}; the slope is s (1 - s)", "factor"),
    Formula("log-slope of the hyperbolic tangent", ("tanh*", "logdet*", "squash*"), "x[*]",
            _tanh_volume, "Dillon et al., TensorFlow distributions, 2017, bijector Tanh",
            "factor"),
    Formula("standard normal log-density", ("gaussian*", "logprob*", "logp*", "base"), "x[*]",
            _standard_normal, "Gauss 1809", "factor"),
    Formula("likelihood of a flow", ("flow*", "logdet*", "ldj", "nll", "logp*"),
            "z[n d], volume[n]", _flow_likelihood, f"{_DINH}, equation 2", "factor"),
    Formula("bits per dimension", ("bpd", "bits*"), "nll[n], size[]:int, levels[]:int", _bits,
            "Theis, van den Oord and Bethge, A note on the evaluation of generative models, 2016",
            ""),
    Formula("actnorm", ("actnorm*",), "x[n d], log_scale[d], bias[d]", _actnorm,
            "Kingma and Dhariwal, Glow, 2018, table 1"),
)  # fmt: skip
"""Rows of this theme."""
