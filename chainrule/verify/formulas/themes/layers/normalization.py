"""Normalization: of rows, columns, groups, weights and gradients."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import norm


def _normal(x: Array, axis: int | tuple[int, ...] | None, eps: float) -> Iterator[Array]:
    """Biased or not, the small number inside of the root, outside or nowhere."""
    off = x - x.mean(axis=axis, keepdims=True)
    for ddof in (0, 1):
        if off.size > ddof:
            v = x.var(axis=axis, ddof=ddof, keepdims=True)
            for s in (np.sqrt(v + eps), np.sqrt(v) + eps, np.sqrt(v), np.maximum(np.sqrt(v), eps)):
                yield off / s


def _last_axes(x: Array) -> list[tuple[int, ...]]:
    return [tuple(range(k, x.ndim)) for k in range(x.ndim - 1, max(x.ndim - 4, -1), -1)]


def _layer(x: Array, eps: float) -> Iterator[Array]:
    for axis in _last_axes(x):
        yield from _normal(x, axis, eps)


def _layer_affine(x: Array, scale: Array, shift: Array, eps: float) -> Iterator[Array]:
    for y in _normal(x, -1, eps):
        yield scale * y + shift


def _batch(x: Array, eps: float) -> Iterator[Array]:
    yield from _normal(x, 0, eps)


def _batch_affine(x: Array, scale: Array, shift: Array, eps: float) -> Iterator[Array]:
    for y in _normal(x, 0, eps):
        yield scale * y + shift


def _channels(x: Array, eps: float) -> Iterator[Array]:
    yield from _normal(x, (0, 2, 3), eps)


def _channels_affine(x: Array, scale: Array, shift: Array, eps: float) -> Iterator[Array]:
    for y in _normal(x, (0, 2, 3), eps):
        yield scale[:, None, None] * y + shift[:, None, None]


def _inference(
    x: Array, mean: Array, variance: Array, scale: Array, shift: Array, eps: float
) -> Iterator[Array]:
    yield scale * (x - mean) / np.sqrt(variance + eps) + shift


def _group(x: Array, groups: int, eps: float) -> Iterator[Array]:
    if groups > 0 and x.shape[1] % int(groups) == 0:
        split = x.reshape(len(x), int(groups), -1)
        for y in _normal(split, -1, eps):
            yield y.reshape(x.shape)


def _instance(x: Array, eps: float) -> Iterator[Array]:
    yield from _normal(x, (2, 3), eps)


def _adaptive(content: Array, style: Array, eps: float) -> Iterator[Array]:
    """The content in the mean and the deviation of the style."""
    axis = (2, 3)
    mean = style.mean(axis=axis, keepdims=True)
    for ddof in (0, 1):
        v = style.var(axis=axis, ddof=ddof, keepdims=True)
        for y in _normal(content, axis, eps):
            yield from (y * s + mean for s in (np.sqrt(v + eps), np.sqrt(v) + eps, np.sqrt(v)))


def _root_mean_square(x: Array, eps: float) -> Iterator[Array]:
    square = (x**2).mean(axis=-1, keepdims=True)
    yield from (x / np.sqrt(square + eps), x / (np.sqrt(square) + eps))
    yield x / np.maximum(np.sqrt(square), eps)


def _root_mean_square_scaled(x: Array, scale: Array, eps: float) -> Iterator[Array]:
    """The scale, or 1 more than it."""
    for y in _root_mean_square(x, eps):
        yield from (scale * y, (1 + scale) * y)


def _weight(v: Array, g: Array) -> Iterator[Array]:
    yield g[:, None] * v / norm(v)[:, None]


def _spectral(weight: Array, u: Array, v: Array) -> Iterator[Array]:
    """By the estimate of the largest singular value."""
    sigma = u @ weight @ v
    yield from (weight / sigma, np.asarray(sigma))


def _power_iteration(weight: Array, u: Array) -> Iterator[tuple[Array, Array]]:
    v = weight.T @ u
    v = v / norm(v)
    left = weight @ v
    yield (left / norm(left), v)


def _standardized(x: Array, eps: float) -> Iterator[Array]:
    for axis in (None, *range(x.ndim)):
        yield from _normal(x, axis, eps)


def _min_max(x: Array, eps: float) -> Iterator[Array]:
    for axis in (None, *range(x.ndim)):
        low, high = x.min(axis=axis, keepdims=True), x.max(axis=axis, keepdims=True)
        for e in (0.0, eps):
            share = (x - low) / (high - low + e)
            yield from (share, 2 * share - 1)


def _unit_rows(x: Array, eps: float) -> Iterator[Array]:
    for axis in range(x.ndim):
        size = np.sqrt((x**2).sum(axis=axis, keepdims=True))
        yield from (x / size, x / (size + eps), x / np.maximum(size, eps))
        yield x / np.sqrt(size**2 + eps)


def _clipped(gradient: Array, limit: float) -> Iterator[Array]:
    size = np.sqrt((gradient**2).sum())
    for below in (size, size + 1e-6, size + 1e-8):
        yield gradient * np.minimum(1.0, limit / below)


def _running(running: Array, new: Array, momentum: float) -> Iterator[Array]:
    """The share is that of what is new; the row of averages has the other one."""
    yield (1 - momentum) * running + momentum * new


def _modulated(x: Array, scale: Array, shift: Array) -> Iterator[Array]:
    """Scales are about 1, or about 0."""
    axes = (slice(None), None) if x.ndim == 3 else (Ellipsis,)
    yield x * (1 + scale[axes]) + shift[axes]
    yield x * scale[axes] + shift[axes]


def _response(x: Array, eps: float) -> Iterator[Array]:
    """GRN: each channel against the mean over channels, channels last."""
    size = np.sqrt((x**2).sum(axis=(1, 2), keepdims=True))
    yield x * size / (size.mean(axis=-1, keepdims=True) + eps)
    yield x * size / (size.mean(axis=-1, keepdims=True) + eps) + x


_IOFFE = "Ioffe and Szegedy, Batch normalization, 2015, algorithm 1"
_BA = "Ba, Kiros and Hinton, Layer normalization, 2016, equation 3"
_ZHANG = "Zhang and Sennrich, Root mean square layer normalization, 2019, equation 4"
_IMAGE = "x[n c h w]"
_BN = ("batchnorm*", "bn*", "batch", "norm*")

ROWS = (
    Formula("layer normalization", ("layernorm*", "ln*", "layer", "norm*"), "x[*], eps[]",
            _layer, _BA),
    Formula("layer normalization with weights", ("layernorm*", "ln*", "layer", "norm*"),
            "x[n d], scale[d], shift[d], eps[]", _layer_affine, _BA),
    Formula("layer normalization with weights of sequences",
            ("layernorm*", "ln*", "layer", "norm*"), "x[b t d], scale[d], shift[d], eps[]",
            _layer_affine, _BA),
    Formula("batch normalization", _BN, "x[n d], eps[]", _batch, _IOFFE),
    Formula("batch normalization with weights", _BN, "x[n d], scale[d], shift[d], eps[]",
            _batch_affine, _IOFFE),
    Formula("batch normalization of images", _BN, f"{_IMAGE}, eps[]", _channels, _IOFFE),
    Formula("batch normalization of images with weights", _BN,
            f"{_IMAGE}, scale[c], shift[c], eps[]", _channels_affine, _IOFFE),
    Formula("batch normalization by running statistics", _BN,
            "x[n d], mean[d], variance[d], scale[d], shift[d], eps[]", _inference,
            "Ioffe and Szegedy, Batch normalization, 2015, algorithm 2"),
    Formula("group normalization", ("groupnorm*", "gn", "group*", "norm*"),
            f"{_IMAGE}, groups[]:int, eps[]", _group, "Wu and He, Group normalization, 2018"),
    Formula("instance normalization", ("instance*", "in", "norm*"), f"{_IMAGE}, eps[]",
            _instance, "Ulyanov, Vedaldi and Lempitsky, Instance normalization, 2016"),
    Formula("adaptive instance normalization", ("adain*", "style*"),
            "content[n c h w], style[n c h w], eps[]", _adaptive,
            "Huang and Belongie, Arbitrary style transfer in real-time with adaptive instance "
            "normalization, 2017, equation 8"),
    Formula("root mean square normalization", ("rms*", "norm*"), "x[*], eps[]",
            _root_mean_square, _ZHANG),
    *(Formula("root mean square normalization with weights", ("rms*", "norm*"),
              f"x[{axes}], scale[d], eps[]", _root_mean_square_scaled, _ZHANG)
      for axes in ("n d", "b t d")),
    Formula("weight normalization", ("weightnorm*", "wn", "weight", "norm*"), "v[n d], g[n]",
            _weight, "Salimans and Kingma, Weight normalization, 2016, equation 2"),
    Formula("spectral normalization", ("spectral*", "sn", "sigma"),
            "weight[n d], u[n], v[d]", _spectral,
            "Miyato et al., Spectral normalization for generative adversarial networks, 2018"),
    Formula("power iteration", ("power*", "spectral*"), "weight[n d], u[n]", _power_iteration,
            "Miyato et al., Spectral normalization for generative adversarial networks, 2018, "
            "algorithm 1"),
    Formula("standardization", ("standard*", "normaliz*", "normalis*", "zscore"),
            "x[*], eps[]", _standardized, "scikit-learn, StandardScaler"),
    Formula("scaling to a range", ("minmax*", "rescale*"),
            "x[*], eps[]", _min_max, "scikit-learn, MinMaxScaler"),
    Formula("rows of unit length", ("normalize*", "normalise*", "unit*", "l2*"), "x[*], eps[]",
            _unit_rows, "PyTorch, functional.normalize"),
    Formula("clipping by norm", ("clip*", "gradnorm*"), "gradient[*], limit[]", _clipped,
            "Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural "
            "networks, 2013, algorithm 1"),
    Formula("running statistics", ("running*", "moving*"),
            "running[*], new[*], momentum[]", _running, "PyTorch, BatchNorm1d"),
    *(Formula("feature-wise modulation", ("film*", "modulat*", "adaln*"), takes,
              _modulated, "Perez et al., FiLM, 2018, equation 2; Peebles and Xie, DiT, 2023")
      for takes in ("x[b t d], scale[b d], shift[b d]", "x[n d], scale[n d], shift[n d]")),
    Formula("global response normalization", ("grn*", "response"), "x[n h w c], eps[]",
            _response, "Woo et al., ConvNeXt V2, 2023, algorithm 1"),
)  # fmt: skip
"""Rows of this theme."""
