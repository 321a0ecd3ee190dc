"""Graphs: as adjacency matrices, (n, n), or as edges from a source to a target."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula


def _inverse(x: Array, power: float) -> Array:
    """1 over a power, and 0 of 0."""
    return np.where(x > 0, np.where(x > 0, x, 1.0) ** -power, 0.0)


def _symmetric(adjacency: Array) -> Array:
    root = _inverse(adjacency.sum(axis=1), 0.5)
    return root[:, None] * adjacency * root


def _looped(adjacency: Array) -> Iterator[Array]:
    """A graph has its loops, or gets them."""
    yield adjacency + np.eye(len(adjacency))
    yield adjacency


def _normalized(adjacency: Array) -> Iterator[Array]:
    for a in _looped(adjacency):
        yield _symmetric(a)


def _random_walk(adjacency: Array) -> Iterator[Array]:
    for a in _looped(adjacency):
        yield from (_inverse(a.sum(axis=1), 1)[:, None] * a, a * _inverse(a.sum(axis=0), 1))


def _laplacian(adjacency: Array) -> Iterator[Array]:
    yield np.diag(adjacency.sum(axis=1)) - adjacency


def _normalized_laplacian(adjacency: Array) -> Iterator[Array]:
    yield np.eye(len(adjacency)) - _symmetric(adjacency)


def _layer(x: Array, adjacency: Array, weight: Array) -> Iterator[Array]:
    for a in _normalized(adjacency):
        y = a @ x @ weight
        yield from (y, np.maximum(y, 0))


def _propagated(x: Array, adjacency: Array) -> Iterator[Array]:
    for a in _normalized(adjacency):
        yield a @ x


def _neighbour_means(x: Array, adjacency: Array) -> Iterator[Array]:
    for a in _looped(adjacency):
        yield _inverse(a.sum(axis=1), 1)[:, None] * (a @ x)


def _adjacency(source: Array, target: Array, n: int) -> Array:
    """Row i has the edges that end in i."""
    a = np.zeros((n, n))
    np.add.at(a, (target.astype(int), source.astype(int)), 1.0)
    return a


def _edge_sums(x: Array, source: Array, target: Array) -> Iterator[Array]:
    yield _adjacency(source, target, len(x)) @ x


def _edge_means(x: Array, source: Array, target: Array) -> Iterator[Array]:
    a = _adjacency(source, target, len(x))
    yield (a @ x) / np.maximum(a.sum(axis=1), 1)[:, None]


def _edge_maxima(x: Array, source: Array, target: Array) -> Iterator[Array]:
    a = _adjacency(source, target, len(x))
    best = np.where(a[:, :, None] > 0, x[None], -np.inf).max(axis=1)
    yield np.where(np.isfinite(best), best, 0.0)


def _edge_convolution(x: Array, source: Array, target: Array) -> Iterator[Array]:
    for a in _looped(_adjacency(source, target, len(x))):
        for degree in (a.sum(axis=1), a.sum(axis=0)):
            root = _inverse(degree, 0.5)
            yield (root[:, None] * a * root) @ x


def _edge_softmax(scores: Array, target: Array) -> Iterator[Array]:
    """Shares among the edges that end in one node."""
    same = target[:, None] == target[None]
    p = np.exp(scores - scores.max())
    yield p / (same * p).sum(axis=1)


def _isomorphism(x: Array, adjacency: Array, eps: float) -> Iterator[Array]:
    yield (1 + eps) * x + adjacency @ x


def _page_rank(rank: Array, adjacency: Array, damping: float) -> Iterator[Array]:
    """Row i has the edges that start in i, or that end in it."""
    for a in (adjacency, adjacency.T):
        walk = _inverse(a.sum(axis=1), 1)[:, None] * a
        yield (1 - damping) / len(rank) + damping * walk.T @ rank


def _personal(x: Array, start: Array, adjacency: Array, alpha: float) -> Iterator[Array]:
    for a in _normalized(adjacency):
        yield (1 - alpha) * a @ x + alpha * start
        yield alpha * a @ x + (1 - alpha) * start


def _smoothness(x: Array, adjacency: Array) -> Iterator[Array]:
    yield np.trace(x.T @ next(_laplacian(adjacency)) @ x)


def _modularity(adjacency: Array, shares: Array) -> Iterator[Array]:
    """Of soft or hard clusters."""
    degree, total = adjacency.sum(axis=1), adjacency.sum()
    b = adjacency - np.outer(degree, degree) / total
    yield np.trace(shares.T @ b @ shares) / total


_KIPF = "Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017"
_GCN = ("gcn*", "adj*", "degree*", "deg", "norm*", "laplac*")
_CHUNG = "Chung, Spectral graph theory, 1997"
_EDGES = "x[n d], source[e]:int, target[e]:int"
_AGGREGATE = ("aggr*", "neighb*", "scatter*", "sage*", "message*", "edge*", "mean")

ROWS = (
    Formula("normalized adjacency", _GCN, "adjacency[n n]", _normalized, f"{_KIPF}, equation 2"),
    Formula("random walk", _GCN, "adjacency[n n]", _random_walk, _CHUNG),
    Formula("graph Laplacian", ("laplac*", "lap", "degree*"), "adjacency[n n]", _laplacian,
            _CHUNG),
    Formula("normalized Laplacian", ("laplac*", "lap", "degree*"), "adjacency[n n]",
            _normalized_laplacian, _CHUNG),
    Formula("graph convolution", _GCN, "x[n d], adjacency[n n], weight[d h]", _layer,
            f"{_KIPF}, equation 2"),
    Formula("propagation by normalized adjacency", _GCN, "x[n d], adjacency[n n]", _propagated,
            f"{_KIPF}, equation 2"),
    Formula("means of neighbours", _AGGREGATE, "x[n d], adjacency[n n]", _neighbour_means,
            "Hamilton, Ying and Leskovec, Inductive representation learning on large graphs, "
            "2017"),
    Formula("sums over edges", _AGGREGATE, _EDGES, _edge_sums,
            "Gilmer et al., Neural message passing for quantum chemistry, 2017, equation 1"),
    Formula("means over edges", _AGGREGATE, _EDGES, _edge_means,
            "Hamilton, Ying and Leskovec, Inductive representation learning on large graphs, "
            "2017"),
    Formula("largest values over edges", _AGGREGATE, _EDGES, _edge_maxima,
            "Hamilton, Ying and Leskovec, Inductive representation learning on large graphs, "
            "2017"),
    Formula("graph convolution over edges", _GCN, _EDGES, _edge_convolution,
            f"{_KIPF}, equation 2"),
    Formula("shares among edges", ("gat*", "att*", "alpha*", "softmax*"),
            "scores[e], target[e]:int", _edge_softmax,
            "Veličković et al., Graph attention networks, 2018, equation 2"),
    Formula("graph isomorphism layer", ("gin*",), "x[n d], adjacency[n n], eps[]", _isomorphism,
            "Xu et al., How powerful are graph neural networks?, 2019, equation 4.1"),
    Formula("PageRank step", ("pagerank*", "rank", "damping"),
            "rank[n], adjacency[n n], damping[]", _page_rank,
            "Page et al., The PageRank citation ranking, 1999"),
    Formula("personalized propagation", ("appnp*", "ppr*", "teleport*", "propag*"),
            "x[n d], start[n d], adjacency[n n], alpha[]", _personal,
            "Klicpera, Bojchevski and Günnemann, Predict then propagate, 2019, equation 5"),
    Formula("smoothness on a graph", ("smooth*", "laplac*", "dirichlet*"),
            "x[n d], adjacency[n n]", _smoothness,
            "Belkin and Niyogi, Laplacian eigenmaps, 2003", "factor"),
    Formula("modularity", ("modular*", "community", "dmon*"),
            "adjacency[n n], shares[n k]", _modularity,
            "Newman, Modularity and community structure in networks, 2006", "factor"),
)  # fmt: skip
"""Rows of this theme."""
