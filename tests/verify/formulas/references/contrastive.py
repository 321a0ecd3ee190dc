"""Losses of pairs and of generators, by PyTorch and scikit-learn."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy.spatial.distance import pdist
from scipy.special import expit, logsumexp
from sklearn import metrics

from tests.verify.formulas.torch_calls import by_torch, tensors


def unit(x):
    return F.normalize(torch.tensor(x), dim=-1).numpy()


def cross_entropy(scores, labels=None):
    labels = np.arange(len(scores)) if labels is None else labels
    return F.cross_entropy(*tensors(scores, labels)).numpy()


def pair(distance, same, margin):
    each = [d**2 if s else max(margin - d, 0) ** 2 for d, s in zip(distance, same, strict=True)]
    yield np.array(each)
    yield np.mean(each)


def pair_points(x, y, same, margin):
    yield from pair(
        np.array([np.linalg.norm(a - b) for a, b in zip(x, y, strict=True)]), same, margin
    )


def cosine_pair(x, y, same, margin):
    a, b, s = tensors(x, y, 2 * same - 1)
    for how in ("none", "mean"):
        yield F.cosine_embedding_loss(a, b, s, margin=margin, reduction=how).numpy()


def triplet(a, p, n, margin):
    x, y, z = tensors(a, p, n)
    for how in ("none", "mean"):
        yield F.triplet_margin_loss(x, y, z, margin=margin, reduction=how, eps=1e-6).numpy()
        yield F.triplet_margin_with_distance_loss(
            x, y, z, margin=margin, reduction=how,
            distance_function=lambda u, v: 1 - F.cosine_similarity(u, v),
        ).numpy()  # fmt: skip


def triplet_distances(near, far, margin):
    yield F.margin_ranking_loss(
        *tensors(far, near, np.ones_like(far)), margin=margin, reduction="none"
    ).numpy()


def ranking(p, n, margin):
    for how in ("none", "mean"):
        yield F.margin_ranking_loss(
            *tensors(p, n, np.ones_like(p)), margin=margin, reduction=how
        ).numpy()


def logistic(p, n):
    yield -np.log(expit(p - n)).mean()


def candidates(p, n, temperature):
    yield cross_entropy(np.c_[p, n] / temperature, np.zeros(len(p), int))


def info_nce(x, y, temperature):
    yield cross_entropy(x @ y.T / temperature)
    s = unit(x) @ unit(y).T / temperature
    yield cross_entropy(s)
    yield (cross_entropy(s) + cross_entropy(s.T)) / 2


def clip(x, y, log_scale):
    s = np.exp(log_scale) * unit(x) @ unit(y).T
    yield (cross_entropy(s) + cross_entropy(s.T)) / 2


def score_matrix(s):
    yield cross_entropy(s)
    yield (cross_entropy(s) + cross_entropy(s.T)) / 2


def corrected(q, item, p):
    """An item's share of a softmax is that of the sum over many draws of in-batch negatives."""
    yield cross_entropy(q @ item.T - np.log(p))
    e = np.exp(q @ item.T) / p
    yield -np.log(np.diagonal(e) / e.sum(axis=1)).mean()


def nt_xent(x, y, temperature):
    z = np.concatenate([unit(x), unit(y)])
    n, total = len(x), 0.0
    for i in range(2 * n):
        j = (i + n) % (2 * n)
        others = [z[i] @ z[k] / temperature for k in range(2 * n) if k != i]
        total += logsumexp(others) - z[i] @ z[j] / temperature
    yield total / (2 * n)


def supervised(x, labels, temperature):
    z, terms = unit(x), []
    for i in range(len(z)):
        others = [k for k in range(len(z)) if k != i]
        positive = [k for k in others if labels[k] == labels[i]]
        below = logsumexp([z[i] @ z[k] / temperature for k in others])
        if positive:
            terms.append(np.mean([below - z[i] @ z[k] / temperature for k in positive]))
    yield np.mean(terms)


def barlow(x, y, share):
    c = np.corrcoef(x.T, y.T)[: x.shape[1], x.shape[1] :]
    on = sum((1 - c[k, k]) ** 2 for k in range(len(c)))
    yield on + share * sum(c[i, j] ** 2 for i, j in permutations(range(len(c)), 2))


def variance_hinge(x, gamma, eps):
    std = torch.sqrt(torch.tensor(x).var(dim=0) + eps)
    yield F.relu(gamma - std).mean().numpy()


def covariance(x):
    c = torch.cov(torch.tensor(x).T).numpy()
    yield sum(c[i, j] ** 2 for i, j in permutations(range(len(c)), 2))


def center(x, labels, centers):
    yield sum(((a - centers[k]) ** 2).sum() for a, k in zip(x, labels, strict=True))


def arc(cosine, labels, margin, scale):
    """The angle of a case's own class grows by the margin."""
    angle = np.arccos(cosine)
    angle[np.arange(len(labels)), labels] += margin
    yield scale * np.cos(angle)
    yield cross_entropy(scale * np.cos(angle), labels)


def cos_face(cosine, labels, margin, scale):
    other = cosine.copy()
    other[np.arange(len(labels)), labels] -= margin
    yield cross_entropy(scale * other, labels)


def similarity(x, y):
    """A squared distance of rows of length 1."""
    yield ((unit(x) - unit(y)) ** 2).sum(axis=1).mean()
    yield -F.cosine_similarity(*tensors(x, y)).mean().numpy()


def sigmoid_pairs(x, y, scale, bias):
    logits = scale * unit(x) @ unit(y).T + bias
    yield F.binary_cross_entropy_with_logits(*tensors(logits, np.eye(len(x)))).numpy()


def uniformity(x, power):
    yield np.log(np.exp(-power * pdist(unit(x)) ** 2).mean())


def negative_sampling(p, n):
    yield np.mean(-np.log(expit(p)) - np.log(expit(-n)).sum(axis=1))


def glove(dot, b, c, counts, most):
    weight = np.array([(x / most) ** 0.75 if x < most else 1.0 for x in counts])
    yield sum(weight * (dot + b + c - np.log(counts)) ** 2)


def dino(student, teacher, center_, s, t):
    yield F.cross_entropy(
        torch.tensor(student / s), torch.softmax(torch.tensor((teacher - center_) / t), dim=-1)
    ).numpy()


def ndcg(scores, relevance):
    yield metrics.ndcg_score(relevance[None], scores[None])
    yield metrics.ndcg_score(2 ** relevance[None] - 1, scores[None])


def listwise(scores, relevance):
    s, r = tensors(scores, relevance)
    yield F.cross_entropy(s, r.softmax(-1)).numpy()


def plackett_luce(scores):
    """Who is first among those that are left."""
    rows = scores.reshape(-1, scores.shape[-1])
    yield sum(logsumexp(r[k:]) - r[k] for r in rows for k in range(len(r)))


def bce(logits, label):
    x = torch.tensor(logits)
    return F.binary_cross_entropy_with_logits(x, torch.full_like(x, label)).numpy()


def discriminator(real, fake):
    yield bce(real, 1.0) + bce(fake, 0.0)


def discriminator_probabilities(real, fake, eps):
    one, other = tensors(real, fake)
    yield F.binary_cross_entropy(one, torch.ones_like(one)) + F.binary_cross_entropy(
        other, torch.zeros_like(other)
    )


def hinges(real, fake):
    one = F.hinge_embedding_loss(*tensors(-real + 1, -np.ones_like(real)), margin=1.0)
    assert one >= 0
    yield np.mean([max(0, 1 - x) for x in real.flat]) + np.mean([max(0, 1 + x) for x in fake.flat])


def least_squares(real, fake):
    yield F.mse_loss(*tensors(real, np.ones_like(real))) + F.mse_loss(
        *tensors(fake, np.zeros_like(fake))
    )


def penalty(gradient, eps):
    sizes = [np.linalg.norm(g) for g in gradient]
    yield np.mean([(s - 1) ** 2 for s in sizes])


def relativistic_average(real, fake):
    yield bce(real - fake.mean(), 1.0) + bce(fake - real.mean(), 0.0)


def between(real, fake, share):
    yield np.stack(
        [torch.lerp(*tensors(f, r), s).numpy() for r, f, s in zip(real, fake, share, strict=True)]
    )


def hardest(d, labels, margin):
    terms = []
    for i in range(len(d)):
        far = max(d[i, j] for j in range(len(d)) if labels[j] == labels[i])
        near = min(d[i, j] for j in range(len(d)) if labels[j] != labels[i])
        terms.append(max(0, far - near + margin))
    yield np.mean(terms)


REFERENCES = {
    "contrastive loss of distances": pair,
    "contrastive loss": pair_points,
    "cosine embedding loss": cosine_pair,
    "triplet loss": triplet,
    "triplet loss of distances": triplet_distances,
    "margin ranking loss": ranking,
    "pairwise logistic loss": logistic,
    "contrastive loss of candidates": candidates,
    "triplet loss of the hardest": hardest,
    "pairwise logistic loss with a scale or a margin": lambda p, n, beta: [
        -np.log(expit(beta * (p - n))).mean(),
        -np.log(expit(p - n - beta)).mean(),
    ],
    "InfoNCE": info_nce,
    "CLIP loss": clip,
    "InfoNCE of scores": score_matrix,
    "in-batch softmax corrected by sampling": corrected,
    "scores corrected by sampling": lambda s, p: [
        cross_entropy(s - np.log(p)),
        np.log(np.exp(s) / p),
    ],
    "NT-Xent": nt_xent,
    "supervised contrastive loss": supervised,
    "Barlow Twins loss": barlow,
    "variance term of VICReg": variance_hinge,
    "covariance term of VICReg": covariance,
    "center loss": center,
    "ArcFace": arc,
    "CosFace": cos_face,
    "cosine loss": similarity,
    "sigmoid loss of pairs": sigmoid_pairs,
    "uniformity loss": uniformity,
    "negative sampling loss": negative_sampling,
    "GloVe loss": glove,
    "DINO loss": dino,
    "normalized discounted cumulative gain": ndcg,
    "ListNet loss": listwise,
    "Plackett-Luce likelihood": plackett_luce,
    "discriminator loss of logits": discriminator,
    "discriminator loss": discriminator_probabilities,
    "generator loss of logits": lambda fake: [bce(fake, 1.0), -bce(fake, 0.0)],
    "hinge loss of discriminators": hinges,
    "least squares loss of discriminators": least_squares,
    "least squares loss of generators": lambda f: by_torch(F.mse_loss)(f, np.ones_like(f)),
    "critic loss": lambda real, fake: [np.mean(fake) - np.mean(real)],
    "gradient penalty": penalty,
    "zero-centred gradient penalty": lambda g: [np.mean([np.linalg.norm(x) ** 2 for x in g])],
    "critic loss with gradient penalty": lambda real, fake, g, w: [
        fake.mean() - real.mean() + w * next(penalty(g, 0.0))
    ],
    "relativistic loss": lambda real, fake: [bce(real - fake, 1.0)],
    "average relativistic loss": relativistic_average,
    "points between real and fake": between,
}
