"""Kernels, distances and geometry."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    norm,
    normalized,
    reductions,
    square_distances,
)


def _distances(x: Array, y: Array) -> Iterator[Array]:
    square = square_distances(x, y)
    yield from (square, np.sqrt(square), np.sqrt(square + 1e-12))


def _own_distances(x: Array) -> Iterator[Array]:
    yield from (square_distances(x, x), np.sqrt(square_distances(x, x)))


def _gaussian(square: Array, width: float) -> Iterator[Array]:
    """By a width, by its square, or by what the distance is multiplied with."""
    for below in (2 * width**2, width**2, 2 * width, width):
        if below:
            yield np.exp(-square / below)
    yield np.exp(-width * square)
    yield np.exp(-((width) ** 2) * square)


def _radial(x: Array, y: Array, width: float) -> Iterator[Array]:
    yield from _gaussian(square_distances(x, y), width)


def _own_radial(x: Array, width: float) -> Iterator[Array]:
    yield from _gaussian(square_distances(x, x), width)


def _radial_scaled(x: Array, y: Array, width: float, variance: float) -> Iterator[Array]:
    """With an amplitude: a variance, or a deviation."""
    for k in _gaussian(square_distances(x, y), width):
        yield from (variance * k, variance**2 * k)


def _radial_features(x: Array, centers: Array, widths: Array) -> Iterator[Array]:
    square = square_distances(x, centers)
    yield from (np.exp(-square / (2 * widths**2)), np.exp(-square * widths))
    yield from (np.exp(-square / widths**2), np.exp(-square * widths**2))


def _matern(x: Array, y: Array, length: float) -> Iterator[Array]:
    """Of one and a half."""
    r = np.sqrt(3) * np.sqrt(square_distances(x, y)) / length
    yield (1 + r) * np.exp(-r)


def _matern_five(x: Array, y: Array, length: float) -> Iterator[Array]:
    r = np.sqrt(5) * np.sqrt(square_distances(x, y)) / length
    yield (1 + r + r**2 / 3) * np.exp(-r)


def _periodic(x: Array, y: Array, length: float, period: float) -> Iterator[Array]:
    wave = np.sin(np.pi * np.abs(x[:, None] - y[None]) / period)
    yield np.exp(-2 * wave**2 / length**2)


def _predicted(kernel: Array, cross: Array, target: Array, noise: float) -> Iterator[Array]:
    """The mean of a Gaussian process; `cross` is of what is asked and what is known."""
    n = len(kernel)
    for added in (0.0, noise, noise**2):
        yield cross @ np.linalg.solve(kernel + added * np.eye(n), target)


def _cosines(x: Array, y: Array, eps: float) -> Iterator[Array]:
    both, size = (x * y).sum(axis=-1), norm(x) * norm(y)
    yield from (both / size, both / (size + eps), both / np.maximum(size, eps))


def _all_cosines(x: Array, y: Array) -> Iterator[Array]:
    yield normalized(x) @ normalized(y).T


def _own_cosines(x: Array) -> Iterator[Array]:
    yield normalized(x) @ normalized(x).T


def _gram(features: Array) -> Iterator[Array]:
    yield features @ features.T


def _gram_images(features: Array) -> Iterator[Array]:
    f = features.reshape(*features.shape[:2], -1)
    yield f @ np.swapaxes(f, 1, 2)


def _style(features: Array, other: Array) -> Iterator[Array]:
    f, g = (x.reshape(*x.shape[:2], -1) for x in (features, other))
    yield from reductions((f @ np.swapaxes(f, 1, 2) - g @ np.swapaxes(g, 1, 2)) ** 2)


def _total_variation(x: Array) -> Iterator[Array]:
    """Of the last two axes: sizes or squares; sums, or sums of means."""
    if x.ndim > 1:
        across, down = np.diff(x, axis=-1), np.diff(x, axis=-2)
        for size in (np.abs, np.square):
            yield size(across).sum() + size(down).sum()
            yield size(across).mean() + size(down).mean()
        a, b = np.diff(x, axis=-1)[..., :-1, :], np.diff(x, axis=-2)[..., :-1]
        yield np.sqrt(a**2 + b**2).sum()
        yield np.sqrt(a**2 + b**2 + 1e-8).sum()


def _soft_min(values: Array, gamma: float) -> float:
    return -gamma * float(np.logaddexp.reduce(-values / gamma))


def _soft_warping(cost: Array, gamma: float) -> Iterator[Array]:
    r = np.full((cost.shape[0] + 1, cost.shape[1] + 1), np.inf)
    r[0, 0] = 0.0
    for i, j in np.ndindex(*cost.shape):
        before = np.array([r[i, j], r[i, j + 1], r[i + 1, j]])
        r[i + 1, j + 1] = cost[i, j] + _soft_min(before, gamma)
    yield np.asarray(r[-1, -1])


def _soft_warping_series(x: Array, y: Array, gamma: float) -> Iterator[Array]:
    yield from _soft_warping((x[:, None] - y[None]) ** 2, gamma)
    yield from _soft_warping(np.abs(x[:, None] - y[None]), gamma)


def _chamfer(x: Array, y: Array) -> Iterator[Array]:
    square = square_distances(x, y)
    for d in (square, np.sqrt(square)):
        near, far = d.min(axis=1), d.min(axis=0)
        yield from (near.mean() + far.mean(), near.sum() + far.sum())


def _student_shares(y: Array) -> Iterator[Array]:
    p = (1 - np.eye(len(y))) / (1 + square_distances(y, y))
    yield p / p.sum()


def _embedding_loss(shares: Array, y: Array) -> Iterator[Array]:
    q = next(_student_shares(y)) + np.eye(len(y))
    for e in (0.0, 1e-12, 1e-10, 1e-8):
        yield from reductions(shares * np.log((shares + e) / (q + e)))


def _sinkhorn(cost: Array, a: Array, b: Array, strength: float, steps: int) -> Iterator[Array]:
    """The plan after so many turns, and what it costs."""
    k = np.exp(-cost / strength)
    u, v = np.ones_like(a), np.ones_like(b)
    for _ in range(int(steps)):
        u = a / (k @ v)
        v = b / (k.T @ u)
    plan = u[:, None] * k * v
    yield from (plan, np.asarray((plan * cost).sum()))


def _alignment(x: Array, y: Array) -> Iterator[Array]:
    """Linear, of columns with or without their means."""
    for a, b in ((x - x.mean(axis=0), y - y.mean(axis=0)), (x, y)):
        cross = ((b.T @ a) ** 2).sum()
        yield cross / np.sqrt(((a.T @ a) ** 2).sum() * ((b.T @ b) ** 2).sum())


def _independence(kernel: Array, other: Array) -> Iterator[Array]:
    n = len(kernel)
    h = np.eye(n) - 1 / n
    yield np.trace(kernel @ h @ other @ h)


def _clusters(z: Array, centers: Array) -> Iterator[Array]:
    q = 1 / (1 + square_distances(z, centers))
    yield q / q.sum(axis=1, keepdims=True)


def _sharpened(q: Array) -> Iterator[Array]:
    p = q**2 / q.sum(axis=0)
    yield p / p.sum(axis=1, keepdims=True)


_RASMUSSEN = "Rasmussen and Williams, Gaussian processes for machine learning, 2006"
_RBF = ("rbf*", "kernel*", "gaussian*", "gamma", "sigma", "width*")
_DIST = ("dist*", "cdist", "pairwise*", "sqdist*", "euclid*")
_COS = ("cos*", "sim*", "similarit*")
_GATYS = "Gatys, Ecker and Bethge, Image style transfer using convolutional neural networks, 2016"
_XIE = "Xie, Girshick and Farhadi, Unsupervised deep embedding for clustering analysis, 2016"

ROWS = (
    Formula("distances of all pairs", _DIST, "x[n d], y[m d]", _distances, "Euclid"),
    Formula("distances of all points", _DIST, "x[n d]", _own_distances, "Euclid"),
    Formula("radial kernel", _RBF, "x[n d], y[m d], width[]", _radial,
            f"{_RASMUSSEN}, equation 4.9"),
    Formula("radial kernel of points", _RBF, "x[n d], width[]", _own_radial,
            f"{_RASMUSSEN}, equation 4.9"),
    Formula("radial kernel with an amplitude", _RBF, "x[n d], y[m d], width[], variance[]",
            _radial_scaled, f"{_RASMUSSEN}, equation 5.1"),
    Formula("radial features", ("rbf*", "center*", "centre*", "basis"),
            "x[n d], centers[m d], widths[m]", _radial_features,
            "Broomhead and Lowe, Radial basis functions, 1988"),
    Formula("Matérn kernel of 3/2", ("matern*",), "x[n d], y[m d], length[]", _matern,
            f"{_RASMUSSEN}, equation 4.17"),
    Formula("Matérn kernel of 5/2", ("matern*",), "x[n d], y[m d], length[]", _matern_five,
            f"{_RASMUSSEN}, equation 4.17"),
    Formula("periodic kernel", ("period*",), "x[n], y[m], length[], period[]", _periodic,
            f"{_RASMUSSEN}, equation 4.31"),
    Formula("mean of a Gaussian process", ("gp", "posterior", "kernel*", "kriging"),
            "kernel[n n], cross[m n], target[n], noise[]", _predicted,
            f"{_RASMUSSEN}, equation 2.25"),
    Formula("cosine similarity", _COS, "x[n d], y[n d], eps[]", _cosines,
            "Salton and McGill, Introduction to modern information retrieval, 1983"),
    Formula("cosine similarity of all pairs", _COS, "x[n d], y[m d]", _all_cosines,
            "Salton and McGill, Introduction to modern information retrieval, 1983"),
    Formula("cosine similarity of all points", _COS, "x[n d]", _own_cosines,
            "Salton and McGill, Introduction to modern information retrieval, 1983"),
    Formula("Gram matrix", ("gram*", "style*"), "features[c p]", _gram,
            f"{_GATYS}, equation 3", "scale"),
    Formula("Gram matrices of images", ("gram*", "style*"), "features[n c h w]", _gram_images,
            f"{_GATYS}, equation 3", "scale"),
    Formula("style loss", ("gram*", "style*"), "features[n c h w], other[n c h w]", _style,
            f"{_GATYS}, equation 4", "factor"),
    Formula("total variation", ("tv*", "variation", "smooth*"), "x[*]", _total_variation,
            "Rudin, Osher and Fatemi, Nonlinear total variation based noise removal algorithms, "
            "1992", "factor"),
    Formula("soft dynamic time warping of costs", ("dtw*", "softdtw*", "warp*"),
            "cost[n m], gamma[]", _soft_warping,
            "Cuturi and Blondel, Soft-DTW, 2017, algorithm 1", "factor"),
    Formula("soft dynamic time warping", ("dtw*", "softdtw*", "warp*"),
            "x[n], y[m], gamma[]", _soft_warping_series,
            "Cuturi and Blondel, Soft-DTW, 2017, algorithm 1", "factor"),
    Formula("chamfer distance", ("chamfer*",), "x[n d], y[m d]", _chamfer,
            "Fan, Su and Guibas, A point set generation network, 2017, section 4.1", "factor"),
    Formula("similarities of t-SNE", ("tsne*", "sne"), "y[n d]",
            _student_shares, "van der Maaten and Hinton, Visualizing data using t-SNE, 2008, "
            "equation 4"),
    Formula("loss of t-SNE", ("tsne*", "sne", "kl*"), "shares[n n], y[n d]", _embedding_loss,
            "van der Maaten and Hinton, Visualizing data using t-SNE, 2008, equation 2",
            "factor"),
    Formula("optimal transport by Sinkhorn's iteration", ("sinkhorn*", "transport", "ot"),
            "cost[n m], supply[n], demand[m], strength[], steps[]:int", _sinkhorn,
            "Cuturi, Sinkhorn distances, 2013, algorithm 1"),
    Formula("linear kernel alignment", ("cka*", "alignment"), "x[n d], y[n h]", _alignment,
            "Kornblith et al., Similarity of neural network representations revisited, 2019"),
    Formula("Hilbert-Schmidt independence", ("hsic*",), "kernel[n n], other[n n]",
            _independence, "Gretton et al., Measuring statistical dependence with "
            "Hilbert-Schmidt norms, 2005", "factor"),
    Formula("soft clusters", ("cluster*", "dec", "student*", "center*"),
            "z[n d], centers[k d]", _clusters, f"{_XIE}, equation 1"),
    Formula("sharpened clusters", ("cluster*", "dec"), "q[n k]", _sharpened,
            f"{_XIE}, equation 3"),
)  # fmt: skip
"""Rows of this theme."""
