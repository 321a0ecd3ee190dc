"""Losses of regions: how far what is found and what is there overlap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    totals,
)


def _axes(ndim: int) -> list[tuple[int, ...]]:
    """Sums run over all, each case, each channel of a case, each channel of all, the last axis."""
    every = tuple(range(ndim))
    axes = [every, every[1:], every[2:], (0, *every[2:]), every[:-1], every[-1:]]
    return list(dict.fromkeys(a for a in axes if a))


def _regions(p: Array, t: Array) -> Iterator[tuple[Array, Array, Array]]:
    """True positives, false positives and false negatives."""
    for axis in _axes(p.ndim):
        yield (p * t).sum(axis=axis), (p * (1 - t)).sum(axis=axis), ((1 - p) * t).sum(axis=axis)


def _overlap(share: Array) -> Iterator[Array]:
    """A coefficient and what it falls short of 1, of each and all."""
    for x in (share, 1 - share):
        yield x
        yield np.asarray(x.mean())
    yield -np.log(np.asarray(share.mean()))


def _dice(probability: Array, target: Array, smooth: float) -> Iterator[Array]:
    for axis in _axes(probability.ndim):
        both = (probability * target).sum(axis=axis)
        for power in (1, 2):
            size = (probability**power + target**power).sum(axis=axis)
            yield from _overlap((2 * both + smooth) / (size + smooth))
            yield from _overlap(2 * both / (size + smooth))
            yield from _overlap(2 * (both + smooth) / (size + smooth))
            yield from _overlap(2 * (both + smooth) / (size + 2 * smooth))


def _jaccard(probability: Array, target: Array, smooth: float) -> Iterator[Array]:
    for tp, fp, fn in _regions(probability, target):
        yield from _overlap((tp + smooth) / (tp + fp + fn + smooth))
        yield from _overlap(tp / (tp + fp + fn + smooth))


def _tversky(
    probability: Array, target: Array, alpha: float, beta: float, smooth: float
) -> Iterator[Array]:
    """Alpha weighs false positives, or false negatives."""
    for tp, fp, fn in _regions(probability, target):
        for below in (alpha * fp + beta * fn, alpha * fn + beta * fp):
            yield from _overlap((tp + smooth) / (tp + below + smooth))
            yield from _overlap(tp / (tp + below + smooth))


def _focal_tversky(
    probability: Array, target: Array, alpha: float, gamma: float, smooth: float
) -> Iterator[Array]:
    for tp, fp, fn in _regions(probability, target):
        for below in (alpha * fp + (1 - alpha) * fn, alpha * fn + (1 - alpha) * fp):
            left = 1 - (tp + smooth) / (tp + below + smooth)
            for power in (gamma, 1 / gamma if gamma else 1.0):
                yield from totals(left**power)


def _f_score(predicted: Array, target: Array, beta: float, eps: float) -> Iterator[Array]:
    tp = (predicted * target).sum()
    found, real = predicted.sum(), target.sum()
    for e in (0.0, eps):
        precision, recall = tp / (found + e), tp / (real + e)
        for b in (1.0, beta**2):
            yield (1 + b) * precision * recall / (b * precision + recall + e)
        yield (2 * tp + e) / (found + real + e)


_PAIR = "probability[*], target[*]"

ROWS = (
    Formula("dice loss", ("dice*",), f"{_PAIR}, smooth[]", _dice,
            "Milletari, Navab and Ahmadi, V-Net, 2016, section 3", "factor"),
    Formula("Jaccard loss", ("jaccard*", "iou*"), f"{_PAIR}, smooth[]", _jaccard,
            "Rahman and Wang, Optimizing intersection-over-union in deep neural networks for "
            "image segmentation, 2016", "factor"),
    Formula("Tversky loss", ("tversky*",), f"{_PAIR}, alpha[], beta[], smooth[]", _tversky,
            "Salehi, Erdogmus and Gholipour, Tversky loss function for image segmentation, 2017",
            "factor"),
    Formula("focal Tversky loss", ("tversky*",), f"{_PAIR}, alpha[], gamma[], smooth[]",
            _focal_tversky, "Abraham and Khan, A novel focal Tversky loss function, 2019",
            "factor"),
    Formula("F-score", ("f1*", "fscore", "fbeta*", "precision", "recall"),
            "predicted[n]:bool, target[n]:bool, beta[], eps[]", _f_score,
            "van Rijsbergen, Information retrieval, 1979"),
)  # fmt: skip
"""Rows of this theme."""
