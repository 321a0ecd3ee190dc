"""Losses of classes: by logits or probabilities, against numbers, labels or shares."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    at_labels,
    counting,
    log_softmax,
    one_hot,
    reductions,
    relu,
    sigmoid,
    softplus,
    totals,
)


def _logs(p: Array, eps: float) -> Iterator[tuple[Array, Array]]:
    """`log p` and `log (1 - p)`, kept from infinity in the ways that are in use."""
    clipped = np.clip(p, eps, 1 - eps)
    yield np.log(p), np.log(1 - p)
    yield np.log(p + eps), np.log(1 - p + eps)
    yield np.log(clipped), np.log(1 - clipped)
    yield np.log(np.maximum(p, eps)), np.log(np.maximum(1 - p, eps))


def _binary(probability: Array, target: Array, eps: float) -> Iterator[Array]:
    for log_p, log_q in _logs(probability, eps):
        yield from reductions(-(target * log_p + (1 - target) * log_q))


def _binary_logits(logits: Array, target: Array) -> Iterator[Array]:
    """Also of targets that are -1 and 1."""
    yield from reductions(softplus(logits) - target * logits)
    yield from reductions(softplus(-target * logits))


def _weighted_binary_logits(logits: Array, target: Array, weight: Array) -> Iterator[Array]:
    positive, negative = softplus(-logits), softplus(logits)
    yield from reductions(weight * target * positive + (1 - target) * negative)


def _cross_entropy(logits: Array, labels: Array) -> Iterator[Array]:
    yield from reductions(-at_labels(log_softmax(logits), labels))


def _next_token(logits: Array, tokens: Array) -> Iterator[Array]:
    """Each position predicts the token after it."""
    yield from _cross_entropy(logits[:, :-1], tokens[:, 1:])


def _perplexity(logits: Array, labels: Array) -> Iterator[Array]:
    loss = -at_labels(log_softmax(logits), labels)
    yield np.exp(loss.mean())
    if loss.ndim > 1:
        yield np.exp(loss.mean(axis=-1))
        yield np.exp(loss.mean(axis=-1)).mean()


def _log_likelihood(probability: Array, labels: Array, eps: float) -> Iterator[Array]:
    for log_p, _ in _logs(probability, eps):
        yield from reductions(-at_labels(log_p, labels))


def _weighted_cross_entropy(logits: Array, labels: Array, weights: Array) -> Iterator[Array]:
    w = weights[labels.astype(int)]
    loss = -w * at_labels(log_softmax(logits), labels)
    yield from reductions(loss)
    yield loss.sum() / w.sum()


def _soft_cross_entropy(logits: Array, target: Array) -> Iterator[Array]:
    terms = -target * log_softmax(logits)
    yield from reductions(terms)


def _soft_log_likelihood(probability: Array, target: Array, eps: float) -> Iterator[Array]:
    for log_p, _ in _logs(probability, eps):
        yield from reductions(-target * log_p)


def _smoothings(hot: Array, smoothing: float) -> Iterator[Array]:
    """What is taken goes to all classes, or to all others."""
    n = hot.shape[-1]
    yield hot * (1 - smoothing) + smoothing / n
    yield hot * (1 - smoothing) + (1 - hot) * smoothing / (n - 1)


def _smoothed(target: Array, smoothing: float) -> Iterator[Array]:
    yield from _smoothings(target, smoothing)
    yield target * (1 - smoothing) + 0.5 * smoothing


def _smoothed_cross_entropy(logits: Array, labels: Array, smoothing: float) -> Iterator[Array]:
    log_p = log_softmax(logits)
    for target in _smoothings(one_hot(labels, logits.shape[-1]), smoothing):
        yield from reductions(-target * log_p)
        yield from reductions((-target * log_p).sum(axis=-1))
    nll, rest = -at_labels(log_p, labels), -log_p.sum(axis=-1)
    yield from reductions((1 - smoothing) * nll + smoothing * rest)


def _focal(
    p: Array, log_p: Array, log_q: Array, target: Array, alpha: float, gamma: float
) -> Iterator[Array]:
    right = target * p + (1 - target) * (1 - p)
    loss = -((1 - right) ** gamma) * (target * log_p + (1 - target) * log_q)
    yield from reductions((target * alpha + (1 - target) * (1 - alpha)) * loss)
    yield from reductions(loss)
    yield from reductions(np.where(target == 1, alpha, 1.0) * loss)
    entropy = -(target * log_p + (1 - target) * log_q)
    yield from reductions((1 - np.exp(-entropy)) ** gamma * entropy)


def _focal_binary(
    probability: Array, target: Array, alpha: float, gamma: float, eps: float
) -> Iterator[Array]:
    for log_p, log_q in _logs(probability, eps):
        yield from _focal(probability, log_p, log_q, target, alpha, gamma)


def _focal_logits(logits: Array, target: Array, alpha: float, gamma: float) -> Iterator[Array]:
    log_p, log_q = -softplus(-logits), -softplus(logits)
    yield from _focal(sigmoid(logits), log_p, log_q, target, alpha, gamma)


def _focal_classes(logits: Array, labels: Array, gamma: float) -> Iterator[Array]:
    log_p = at_labels(log_softmax(logits), labels)
    yield from reductions(-((1 - np.exp(log_p)) ** gamma) * log_p)


def _focal_weighted(logits: Array, labels: Array, weights: Array, gamma: float) -> Iterator[Array]:
    log_p, w = at_labels(log_softmax(logits), labels), weights[labels.astype(int)]
    yield from reductions(-w * (1 - np.exp(log_p)) ** gamma * log_p)
    yield from reductions(-w * (1 - np.exp(w * log_p)) ** gamma * log_p)


def _focal_probabilities(
    probability: Array, target: Array, gamma: float, eps: float
) -> Iterator[Array]:
    """Against shares, one for each class."""
    for log_p, _ in _logs(probability, eps):
        yield from reductions(-target * (1 - probability) ** gamma * log_p)
        yield from reductions(-target * (1 - np.exp(log_p)) ** gamma * log_p)


def _hinge(score: Array, target: Array, margin: float) -> Iterator[Array]:
    """Targets are -1 and 1, or 0 and 1."""
    for sign in (target, 2 * target - 1):
        out = relu(margin - sign * score)
        yield from reductions(out)
        yield from reductions(out**2)


def _class_hinge(logits: Array, labels: Array, margin: float) -> Iterator[Array]:
    """The sum over the other classes, or the worst one."""
    other = 1 - one_hot(labels, logits.shape[-1])
    out = other * relu(logits - at_labels(logits, labels)[..., None] + margin)
    for x in (out, out**2):
        yield from reductions(x)
        yield from totals(x.max(axis=-1))


def _ordinal_levels(logits: Array, labels: Array) -> Iterator[Array]:
    """A logit for each level: whether the label is above it, labels from 0 or from 1."""
    for first in (0, 1):
        above = (labels[..., None] > counting(logits.shape[-1]) + first).astype(float)
        yield from reductions(softplus(logits) - above * logits)


def _proportional_odds(score: Array, labels: Array, thresholds: Array) -> Iterator[Array]:
    below = sigmoid(thresholds[None] - score[:, None])
    ends = np.zeros((len(score), 1)), np.ones((len(score), 1))
    shares = np.diff(np.concatenate([ends[0], below, ends[1]], axis=1), axis=1)
    yield from reductions(-np.log(at_labels(shares, labels)))


def _effective_number(counts: Array, beta: float) -> Iterator[Array]:
    yield (1 - beta) / (1 - beta**counts)


def _brier(probability: Array, labels: Array) -> Iterator[Array]:
    yield from reductions((probability - one_hot(labels, probability.shape[-1])) ** 2)


_SOFT = "probability[*], target[*]"
_LABELS = ("logits[n c], labels[n]:int", "logits[b t c], labels[b t]:int")
_CE = ("ce", "xent", "crossentropy", "entropy", "nll", "logits", "softmax", "logsoftmax")

ROWS = (
    Formula("binary cross entropy", ("bce*", "entropy", "crossentropy"),
            f"{_SOFT}, eps[]", _binary, "Goodfellow, Bengio and Courville, Deep learning, 2016, "
            "section 6.2.2.2", "factor"),
    Formula("binary cross entropy of logits", ("bce*", "entropy", "logit*", "logistic"),
            "logits[*], target[*]", _binary_logits, "Goodfellow, Bengio and Courville, Deep "
            "learning, 2016, section 6.2.2.2", "factor"),
    Formula("weighted binary cross entropy of logits", ("weight*", "pos", "positive*"),
            "logits[*], target[*], weight[]", _weighted_binary_logits,
            "PyTorch, BCEWithLogitsLoss", "factor"),
    *(Formula("cross entropy", _CE, takes, _cross_entropy, "Bridle, Probabilistic "
              "interpretation of feedforward classification network outputs, 1990", "factor")
      for takes in _LABELS),
    *(Formula("perplexity", ("perplexity", "ppl"), takes, _perplexity, "Jelinek et al., "
              "Perplexity, a measure of the difficulty of speech recognition tasks, 1977")
      for takes in _LABELS),
    Formula("negative log likelihood of probabilities", _CE,
            "probability[n c], labels[n]:int, eps[]", _log_likelihood, "Bridle, Probabilistic "
            "interpretation of feedforward classification network outputs, 1990", "factor"),
    Formula("weighted cross entropy", ("weight*", "balanced"),
            f"{_LABELS[0]}, weights[c]", _weighted_cross_entropy,
            "PyTorch, CrossEntropyLoss", "factor"),
    Formula("cross entropy of shares", ("soft", "onehot", "hot", *_CE), "logits[*], target[*]",
            _soft_cross_entropy, "Goodfellow, Bengio and Courville, Deep learning, 2016, "
            "section 6.2.2.3", "factor"),
    Formula("cross entropy of probabilities and shares", ("soft", "onehot", "hot", *_CE),
            f"{_SOFT}, eps[]", _soft_log_likelihood, "Goodfellow, Bengio and Courville, Deep "
            "learning, 2016, section 6.2.2.3", "factor"),
    Formula("smoothed labels", ("smooth*",), "target[*], smoothing[]", _smoothed,
            "Szegedy et al., Rethinking the Inception architecture, 2016, section 7"),
    *(Formula("cross entropy with label smoothing", ("smooth*",), f"{takes}, smoothing[]",
              _smoothed_cross_entropy, "Szegedy et al., Rethinking the Inception architecture, "
              "2016, section 7", "factor") for takes in _LABELS),
    Formula("focal loss", ("focal*",), f"{_SOFT}, alpha[], gamma[], eps[]",
            _focal_binary, "Lin et al., Focal loss for dense object detection, 2017, "
            "equation 5", "factor"),
    Formula("focal loss of logits", ("focal*",),
            "logits[*], target[*], alpha[], gamma[]", _focal_logits,
            "Lin et al., Focal loss for dense object detection, 2017, equation 5", "factor"),
    Formula("focal loss of classes", ("focal*",), f"{_LABELS[0]}, gamma[]",
            _focal_classes, "Lin et al., Focal loss for dense object detection, 2017, "
            "equation 4", "factor"),
    Formula("weighted focal loss of classes", ("focal*",),
            f"{_LABELS[0]}, weights[c], gamma[]", _focal_weighted,
            "Lin et al., Focal loss for dense object detection, 2017, equation 5", "factor"),
    Formula("focal loss of shares", ("focal*",), f"{_SOFT}, gamma[], eps[]",
            _focal_probabilities, "Lin et al., Focal loss for dense object detection, 2017, "
            "equation 4", "factor"),
    Formula("hinge loss", ("hinge*", "svm", "margin"), "score[*], target[*], margin[]", _hinge,
            "Cortes and Vapnik, Support-vector networks, 1995", "factor"),
    Formula("hinge loss of classes", ("hinge*", "svm", "margin"), f"{_LABELS[0]}, margin[]",
            _class_hinge, "Weston and Watkins 1999; Crammer and Singer 2001", "factor"),
    Formula("ordinal loss of levels", ("ordinal*", "coral*", "corn", "level*"),
            "logits[n k], labels[n]:int", _ordinal_levels, "Cao, Mirjalili and Raschka, Rank "
            "consistent ordinal regression (CORAL), 2020", "factor"),
    Formula("proportional odds likelihood", ("ordinal*", "cumulative", "odds", "threshold*"),
            "score[n], labels[n]:int, thresholds[k]", _proportional_odds,
            "McCullagh, Regression models for ordinal data, 1980", "factor"),
    Formula("class-balanced weights", ("balanced", "effective*"),
            "counts[c], beta[]", _effective_number,
            "Cui et al., Class-balanced loss based on effective number of samples, 2019", "scale"),
    Formula("Brier score", ("brier*",), "probability[n c], labels[n]:int", _brier,
            "Brier, Verification of forecasts expressed in terms of probability, 1950", "factor"),
    Formula("next-token cross entropy", ("lm", "token*", "shift*", "next*", "causal", *_CE),
            "logits[b t c], tokens[b t]:int", _next_token,
            "Bengio et al., A neural probabilistic language model, 2003", "factor"),
)  # fmt: skip
"""Rows of this theme."""
