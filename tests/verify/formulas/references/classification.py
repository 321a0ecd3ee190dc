"""Losses of classes, by PyTorch, SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from scipy.special import expit
from sklearn import metrics

from tests.verify.formulas.torch_calls import by_torch, tensors


def _labelled(logits, labels):
    """(..., c) logits as (n, c), labels as (n)."""
    x, y = tensors(logits, labels)
    return x.reshape(-1, x.shape[-1]), y.reshape(-1).long()


def weighted_binary(x, t, w):
    x, t = tensors(x, t)
    for how in ("none", "mean"):
        yield F.binary_cross_entropy_with_logits(
            x, t, pos_weight=torch.tensor(w), reduction=how
        ).numpy()


def cross_entropy(logits, labels):
    x, y = _labelled(logits, labels)
    yield F.cross_entropy(x, y).numpy()
    yield F.cross_entropy(x, y, reduction="none").reshape(labels.shape).numpy()


def perplexity(logits, labels):
    yield F.cross_entropy(*_labelled(logits, labels)).exp().numpy()


def likelihood(p, labels, eps):
    yield F.nll_loss(*_labelled(np.log(p), labels)).numpy()


def weighted_cross_entropy(logits, labels, weights):
    w = torch.tensor(weights)
    yield F.cross_entropy(*_labelled(logits, labels), weight=w).numpy()


def soft(logits, t):
    yield F.cross_entropy(*tensors(logits, t), reduction="none").numpy()
    yield F.cross_entropy(*tensors(logits, t)).numpy()


def soft_likelihood(p, t, eps):
    yield F.cross_entropy(*tensors(np.log(p / p.sum(1, keepdims=True)), t)).numpy() - np.mean(
        t.sum(1) * np.log(p.sum(1))
    )


def smoothed(t, smoothing):
    """Mixed with the uniform distribution; sums to 1 as before."""
    new = (1 - smoothing) * t + smoothing * np.full_like(t, 1 / t.shape[-1])
    yield new
    shares = t / t.sum(-1, keepdims=True)
    assert np.allclose(((1 - smoothing) * shares + smoothing / t.shape[-1]).sum(-1), 1)


def smoothed_cross_entropy(logits, labels, smoothing):
    for how in ("mean", "sum"):
        yield F.cross_entropy(
            *_labelled(logits, labels), label_smoothing=smoothing, reduction=how
        ).numpy()


def focal(p, t, alpha, gamma, eps):
    """As torchvision's sigmoid_focal_loss."""
    x, t = tensors(p, t)
    ce = F.binary_cross_entropy(x, t, reduction="none")
    p_t = x * t + (1 - x) * (1 - t)
    loss = ce * (1 - p_t) ** gamma
    yield ((alpha * t + (1 - alpha) * (1 - t)) * loss).mean().numpy()
    yield loss.mean().numpy()


def focal_logits(x, t, alpha, gamma):
    yield from focal(expit(x), t, alpha, gamma, 0.0)


def focal_classes(x, y, gamma):
    """Without its exponent it is cross entropy; each case weighs less by what it is sure of."""
    ce = F.cross_entropy(*_labelled(x, y), reduction="none")
    yield (ce * (1 - torch.exp(-ce)) ** gamma).mean().numpy()


def focal_weighted(x, y, weights, gamma):
    ce = F.cross_entropy(*_labelled(x, y), reduction="none")
    w = torch.tensor(weights)[torch.tensor(y)]
    yield (w * ce * (1 - torch.exp(-ce)) ** gamma).sum().numpy()


def focal_shares(p, t, gamma, eps):
    yield sum(-t * np.log(p) * (1 - p) ** gamma for p, t in zip(p.T, t.T, strict=True)).mean()


def dice(p, t, smooth):
    """The harmonic mean of precision and recall, of shares."""
    precision, recall = (p * t).sum() / p.sum(), (p * t).sum() / t.sum()
    if smooth == 0:
        yield 2 * precision * recall / (precision + recall)
    yield 1 - (2 * (p * t).sum() + smooth) / (p.sum() + t.sum() + smooth)
    each = [
        1 - (2 * a @ b + smooth) / (a.sum() + b.sum() + smooth) for a, b in zip(p, t, strict=True)
    ]
    yield np.mean(each)
    yield 1 - (2 * (p * t).sum() + smooth) / ((p * p).sum() + (t * t).sum() + smooth)


def jaccard(p, t, smooth):
    """By the dice coefficient D: D / (2 - D)."""
    d = (2 * (p * t).sum() + smooth * 2) / (p.sum() + t.sum() + smooth * 2)
    yield 1 - d / (2 - d)


def tversky(p, t, alpha, beta, smooth):
    """Of both one half it is the dice loss, of both 1 the Jaccard loss."""
    tp = (p * t).sum()
    yield 1 - (tp + smooth) / (tp + alpha * (p.sum() - tp) + beta * (t.sum() - tp) + smooth)


def focal_tversky(p, t, alpha, gamma, smooth):
    (plain, *_) = tversky(p, t, alpha, 1 - alpha, smooth)
    yield plain**gamma
    yield plain ** (1 / gamma)


def f_score(p, t, beta, eps):
    yield metrics.fbeta_score(t, p, beta=beta)
    yield metrics.f1_score(t, p)


def hinge(score, t, margin):
    """That of PyTorch: a target of 1 gives the input, one of -1 what a margin is missed by."""
    yield F.relu(*tensors(margin - t * score)).numpy()
    yield (np.maximum(margin - (2 * t - 1) * score, 0) ** 2).mean()


def class_hinge(x, y, margin):
    x, y = _labelled(x, y)
    yield F.multi_margin_loss(x, y, margin=margin).numpy()
    yield F.multi_margin_loss(x, y, margin=margin, p=2).numpy()


def ordinal(x, y):
    """A sum of binary cross entropies, of the questions "is it above k?"."""
    above = np.array([[float(k < label) for k in range(x.shape[1])] for label in y])
    yield F.binary_cross_entropy_with_logits(*tensors(x, above)).numpy()


def proportional_odds(score, y, thresholds):
    """`P(y <= k) = sigmoid(threshold[k] - score)`."""
    up_to = lambda k, s: 0.0 if k < 0 else expit(thresholds[k] - s)
    top = len(thresholds)
    p = [
        (1.0 if k == top else up_to(k, s)) - up_to(k - 1, s) for s, k in zip(score, y, strict=True)
    ]
    yield -np.log(p).mean()


def effective(counts, beta):
    """One over `1 + beta + beta² ...`, which for whole counts has so many terms."""
    yield (1 - beta) / -np.expm1(counts * np.log(beta))


def brier(p, y):
    yield ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()


def next_token(logits, tokens):
    """Pairs of a position and the token after it, one by one."""
    terms = [
        F.cross_entropy(*tensors(x[k], y[k + 1])).item()
        for x, y in zip(logits, tokens, strict=True)
        for k in range(len(y) - 1)
    ]
    yield np.mean(terms)


REFERENCES = {
    "binary cross entropy": by_torch(F.binary_cross_entropy),
    "binary cross entropy of logits": by_torch(F.binary_cross_entropy_with_logits),
    "weighted binary cross entropy of logits": weighted_binary,
    "cross entropy": cross_entropy,
    "perplexity": perplexity,
    "negative log likelihood of probabilities": likelihood,
    "weighted cross entropy": weighted_cross_entropy,
    "cross entropy of shares": soft,
    "cross entropy of probabilities and shares": soft_likelihood,
    "smoothed labels": smoothed,
    "cross entropy with label smoothing": smoothed_cross_entropy,
    "focal loss": focal,
    "focal loss of logits": focal_logits,
    "focal loss of classes": focal_classes,
    "weighted focal loss of classes": focal_weighted,
    "focal loss of shares": focal_shares,
    "dice loss": dice,
    "Jaccard loss": jaccard,
    "Tversky loss": tversky,
    "focal Tversky loss": focal_tversky,
    "F-score": f_score,
    "hinge loss": hinge,
    "hinge loss of classes": class_hinge,
    "ordinal loss of levels": ordinal,
    "proportional odds likelihood": proportional_odds,
    "class-balanced weights": effective,
    "Brier score": brier,
    "next-token cross entropy": next_token,
}
