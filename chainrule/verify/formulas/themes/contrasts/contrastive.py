"""Losses of pairs: what belongs together lies close, what does not lies apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    at_labels,
    log_softmax,
    log_sum_exp,
    norm,
    normalized,
    one_hot,
    reductions,
    relu,
    softplus,
    square_distances,
    totals,
)


def _pair(distance: Array, same: Array, margin: float) -> Iterator[Array]:
    """A label of 1 means alike, or different; distances have been squared or not."""
    apart = relu(margin - distance) ** 2
    near = relu(margin - np.sqrt(np.abs(distance))) ** 2
    for s in (same, 1 - same):
        yield from reductions(s * distance**2 + (1 - s) * apart)
        yield from reductions(s * np.abs(distance) + (1 - s) * near)
        yield from reductions(s * distance + (1 - s) * relu(margin - distance))


def _pair_points(x: Array, y: Array, same: Array, margin: float) -> Iterator[Array]:
    square = ((x - y) ** 2).sum(axis=-1)
    for distance in (np.sqrt(square), np.sqrt(square + 1e-12)):
        yield from _pair(distance, same, margin)
    for s in (same, 1 - same):
        yield from reductions(s * square + (1 - s) * relu(margin - square))


def _cosine_pair(x: Array, y: Array, same: Array, margin: float) -> Iterator[Array]:
    cosine = (normalized(x) * normalized(y)).sum(axis=-1)
    for s in (same, (same + 1) / 2):
        yield from reductions(s * (1 - cosine) + (1 - s) * relu(cosine - margin))


def _triplet(anchor: Array, positive: Array, negative: Array, margin: float) -> Iterator[Array]:
    """Distances, their squares, cosines; a small number keeps the root from 0."""
    p, n = (anchor - x for x in (positive, negative))
    unit = normalized(anchor)
    pairs = [((p**2).sum(axis=-1), (n**2).sum(axis=-1)), (norm(p), norm(n))]
    pairs += [(norm(p + 1e-6), norm(n + 1e-6)), ((p**2).mean(axis=-1), (n**2).mean(axis=-1))]
    pairs += [tuple(1 - (unit * normalized(x)).sum(axis=-1) for x in (positive, negative))]
    for near, far in pairs:
        yield from _triplet_distances(near, far, margin)


def _triplet_distances(near: Array, far: Array, margin: float) -> Iterator[Array]:
    out = relu(near - far + margin)
    yield from reductions(out)
    yield out.sum() / max(1, int((out > 0).sum()))
    yield from reductions(softplus(near - far))


def _hardest(distances: Array, labels: Array, margin: float) -> Iterator[Array]:
    """The farthest of the same class against the nearest of another one."""
    same = labels[:, None] == labels[None]
    far = np.where(same, distances, -np.inf).max(axis=1)
    yield from _triplet_distances(far, np.where(same, np.inf, distances).min(axis=1), margin)


def _candidates(
    positive_score: Array, negative_scores: Array, temperature: float
) -> Iterator[Array]:
    """One right candidate among others."""
    all_ = np.concatenate([positive_score[:, None], negative_scores], axis=1) / temperature
    yield from totals(-log_softmax(all_)[:, 0])


def _diagonal(scores: Array) -> Array:
    """Each row's right column is that of its own number."""
    return -np.diagonal(log_softmax(scores))


def _scores(x: Array, y: Array, temperature: float) -> Iterator[Array]:
    """Rows have been normalized or not; a number or its exponential divides or multiplies."""
    for a, b in ((x, y), (normalized(x), normalized(y))):
        for t in (temperature, 1 / temperature, np.exp(temperature), np.exp(-temperature)):
            yield a @ b.T / t


def _info_nce(x: Array, y: Array, temperature: float) -> Iterator[Array]:
    """From one side, or the mean of both."""
    for scores in _scores(x, y, temperature):
        yield from totals(_diagonal(scores))
        yield from totals(_diagonal(scores) + _diagonal(scores.T))


def _clip(x: Array, y: Array, log_scale: float) -> Iterator[Array]:
    yield from _info_nce(x, y, float(np.exp(-log_scale)))


def _score_matrix(scores: Array) -> Iterator[Array]:
    yield from totals(_diagonal(scores))
    yield from totals(_diagonal(scores) + _diagonal(scores.T))


def _corrected(query: Array, item: Array, probability: Array) -> Iterator[Array]:
    """In-batch negatives are drawn by how frequent they are."""
    for a, b in ((query, item), (normalized(query), normalized(item))):
        scores = a @ b.T - np.log(probability)[None]
        yield scores
        yield from totals(_diagonal(scores))


def _corrected_scores(scores: Array, probability: Array) -> Iterator[Array]:
    corrected = scores - np.log(probability)[None]
    yield corrected
    yield from totals(_diagonal(corrected))


def _nt_xent(x: Array, y: Array, temperature: float) -> Iterator[Array]:
    n = len(x)
    for a, b in ((x, y), (normalized(x), normalized(y))):
        z = np.concatenate([a, b])
        scores = z @ z.T / temperature + np.where(np.eye(2 * n) == 1, -np.inf, 0.0)
        partner = np.roll(np.arange(2 * n), n)
        yield from totals(-at_labels(log_softmax(scores), partner))


def _supervised(features: Array, labels: Array, temperature: float) -> Iterator[Array]:
    own, same = np.eye(len(labels)), labels[:, None] == labels[None]
    positive = same * (1 - own)
    count = positive.sum(axis=1)
    for z in (features, normalized(features)):
        scores = z @ z.T / temperature
        log_p = scores - log_sum_exp(np.where(own == 1, -np.inf, scores))[:, None]
        each = -(positive * log_p).sum(axis=1) / np.maximum(count, 1)
        yield from (each, each.mean(), np.asarray(each[count > 0].mean()))


def _barlow(x: Array, y: Array, share: float) -> Iterator[Array]:
    for ddof in (0, 1):
        a, b = ((z - z.mean(axis=0)) / z.std(axis=0, ddof=ddof) for z in (x, y))
        for n in (len(x), len(x) - 1):
            c = a.T @ b / n
            square = (c - np.eye(len(c))) ** 2
            yield np.asarray(np.trace(square) + share * (square.sum() - np.trace(square)))


def _variance_hinge(x: Array, gamma: float, eps: float) -> Iterator[Array]:
    for ddof in (0, 1):
        yield from reductions(relu(gamma - np.sqrt(x.var(axis=0, ddof=ddof) + eps)))
        yield from reductions(relu(gamma - x.std(axis=0, ddof=ddof)))


def _covariance(x: Array) -> Iterator[Array]:
    c = np.cov(x.T)
    yield np.asarray((c**2).sum() - (np.diagonal(c) ** 2).sum())


def _center(features: Array, labels: Array, centers: Array) -> Iterator[Array]:
    yield from reductions((features - centers[labels.astype(int)]) ** 2)
    yield from totals(norm(features - centers[labels.astype(int)]))


def _arc_logits(cosine: Array, labels: Array, margin: float, scale: float) -> Iterator[Array]:
    """Past an angle of pi less the margin, papers' code goes on by a line."""
    hot = one_hot(labels, cosine.shape[-1])
    sine = np.sqrt(relu(1 - cosine**2))
    moved = cosine * float(np.cos(margin)) - sine * float(np.sin(margin))
    limit = float(np.cos(np.pi - margin))
    line = cosine - float(np.sin(np.pi - margin)) * margin
    for bent in (moved, np.where(cosine > limit, moved, line), np.where(cosine > 0, moved, cosine)):
        chosen: Array = np.where(hot == 1, bent, cosine)
        yield scale * chosen


def _arc(cosine: Array, labels: Array, margin: float, scale: float) -> Iterator[Array]:
    for logits in _arc_logits(cosine, labels, margin, scale):
        yield logits
        yield from totals(-at_labels(log_softmax(logits), labels))


def _cos(cosine: Array, labels: Array, margin: float, scale: float) -> Iterator[Array]:
    logits = scale * (cosine - margin * one_hot(labels, cosine.shape[-1]))
    yield logits
    yield from totals(-at_labels(log_softmax(logits), labels))


def _similarity(x: Array, y: Array) -> Iterator[Array]:
    cosine = (normalized(x) * normalized(y)).sum(axis=-1)
    for value in (cosine, 1 - cosine):
        yield from totals(value)


def _sigmoid_pairs(x: Array, y: Array, scale: float, bias: float) -> Iterator[Array]:
    sign = 2 * np.eye(len(x)) - 1
    for a, b in ((x, y), (normalized(x), normalized(y))):
        for factor in (scale, np.exp(scale)):
            yield from reductions(softplus(-sign * (factor * a @ b.T + bias)))


def _uniformity(x: Array, power: float) -> Iterator[Array]:
    i, j = np.triu_indices(len(x), 1)
    for z in (x, normalized(x)):
        yield np.log(np.exp(-power * square_distances(z, z)[i, j]).mean())


_NCE = ("nce", "infonce", "contrast*", "clip*", "simclr", "ntxent", "xent", "inbatch", "retriev*")
_OORD = (
    "van den Oord, Li and Vinyals, Representation learning with contrastive predictive "
    "coding, 2018, equation 4"
)
_YI = (
    "Yi et al., Sampling-bias-corrected neural modeling for large corpus item recommendations, 2019"
)
_Q = ("logq*", "popular*", "sampled*", "correction*", "inbatch")
_HADSELL = (
    "Hadsell, Chopra and LeCun, Dimensionality reduction by learning an invariant "
    "mapping, 2006, equation 4"
)
_VICREG = "Bardes, Ponce and LeCun, VICReg, 2022, section 4.1"

ROWS = (
    Formula("contrastive loss of distances", ("contrast*", "siamese", "pair*"),
            "distance[n], same[n]:bool, margin[]", _pair, _HADSELL, "factor"),
    Formula("contrastive loss", ("contrast*", "siamese", "pair*"),
            "x[n d], y[n d], same[n]:bool, margin[]", _pair_points, _HADSELL, "factor"),
    Formula("cosine embedding loss", ("cosine", "cos", "siamese"),
            "x[n d], y[n d], same[n]:bool, margin[]", _cosine_pair,
            "PyTorch, CosineEmbeddingLoss", "factor"),
    Formula("triplet loss", ("triplet*", "anchor*"),
            "anchor[n d], positive[n d], negative[n d], margin[]", _triplet,
            "Schroff, Kalenichenko and Philbin, FaceNet, 2015, equation 2", "factor"),
    Formula("triplet loss of distances", ("triplet*", "anchor*"),
            "near[n], far[n], margin[]", _triplet_distances,
            "Schroff, Kalenichenko and Philbin, FaceNet, 2015, equation 2", "factor"),
    Formula("contrastive loss of candidates", _NCE,
            "positive_score[n], negative_scores[n k], temperature[]", _candidates, _OORD,
            "factor"),
    Formula("InfoNCE", _NCE, "x[n d], y[n d], temperature[]", _info_nce, _OORD, "factor"),
    Formula("CLIP loss", ("clip*", "scale"), "x[n d], y[n d], log_scale[]", _clip,
            "Radford et al., Learning transferable visual models from natural language "
            "supervision, 2021, figure 3", "factor"),
    Formula("InfoNCE of scores", _NCE, "scores[n n]", _score_matrix, _OORD, "factor"),
    Formula("in-batch softmax corrected by sampling", _Q,
            "query[n d], item[n d], probability[n]", _corrected, _YI, "factor"),
    Formula("scores corrected by sampling", _Q, "scores[n n], probability[n]",
            _corrected_scores, _YI, "factor"),
    Formula("NT-Xent", ("ntxent", "nt", "xent", "simclr", "contrast*"),
            "x[n d], y[n d], temperature[]", _nt_xent,
            "Chen et al., A simple framework for contrastive learning (SimCLR), 2020, equation 1",
            "factor"),
    Formula("supervised contrastive loss", ("supcon*", "contrast*"),
            "features[n d], labels[n]:int, temperature[]", _supervised,
            "Khosla et al., Supervised contrastive learning, 2020, equation 2", "factor"),
    Formula("Barlow Twins loss", ("barlow*", "twins", "offdiag*", "diag*"),
            "x[n d], y[n d], share[]", _barlow,
            "Zbontar et al., Barlow Twins, 2021, equation 1", "factor"),
    Formula("variance term of VICReg", ("vicreg*", "std", "var*"), "x[n d], gamma[], eps[]",
            _variance_hinge, _VICREG, "factor"),
    Formula("covariance term of VICReg", ("vicreg*", "cov*"), "x[n d]", _covariance, _VICREG,
            "factor"),
    Formula("center loss", ("center*", "centre*", "centroid*"),
            "features[n d], labels[n]:int, centers[c d]", _center,
            "Wen et al., A discriminative feature learning approach for deep face recognition, "
            "2016, equation 2", "factor"),
    Formula("ArcFace", ("arc*", "angular", "aam"), "cosine[n c], labels[n]:int, margin[], scale[]",
            _arc, "Deng et al., ArcFace, 2019, equation 3"),
    Formula("CosFace", ("cosface", "cos", "lmcl", "amsoftmax", "am"),
            "cosine[n c], labels[n]:int, margin[], scale[]", _cos,
            "Wang et al., CosFace, 2018, equation 4"),
    Formula("cosine loss", ("cos*", "byol", "simsiam", "similarity"), "x[n d], y[n d]",
            _similarity, "Grill et al., Bootstrap your own latent, 2020, equation 2", "factor"),
    Formula("sigmoid loss of pairs", ("siglip", "sigmoid"),
            "x[n d], y[n d], scale[], bias[]", _sigmoid_pairs,
            "Zhai et al., Sigmoid loss for language image pre-training, 2023", "factor"),
    Formula("uniformity loss", ("uniform*",), "x[n d], power[]", _uniformity,
            "Wang and Isola, Understanding contrastive representation learning through alignment "
            "and uniformity, 2020", "factor"),
    Formula("triplet loss of the hardest", ("hard*", "triplet*", "batchhard"),
            "distances[n n], labels[n]:int, margin[]", _hardest,
            "Hermans, Beyer and Leibe, In defense of the triplet loss, 2017, equation 5",
            "factor"),
)  # fmt: skip
"""Rows of this theme."""
