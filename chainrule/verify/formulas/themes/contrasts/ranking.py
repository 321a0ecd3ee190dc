"""Losses of scores: what is better stands before what is worse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula
from chainrule.verify.formulas.themes.functions import (
    log_softmax,
    reductions,
    relu,
    softmax,
    softplus,
    totals,
)


def _ranking(positive_score: Array, negative_score: Array, margin: float) -> Iterator[Array]:
    yield from reductions(relu(margin - (positive_score - negative_score)))


def _pairwise_logistic(positive_score: Array, negative_score: Array) -> Iterator[Array]:
    yield from reductions(softplus(negative_score - positive_score))


def _scaled_logistic(positive_score: Array, negative_score: Array, beta: float) -> Iterator[Array]:
    """With a factor, or with a margin."""
    off = positive_score - negative_score
    yield from reductions(softplus(-beta * off))
    yield from reductions(softplus(-(off - beta)))


def _negative_sampling(positive_score: Array, negative_scores: Array) -> Iterator[Array]:
    yield from totals(softplus(-positive_score) + softplus(negative_scores).sum(axis=1))
    yield from totals(softplus(-positive_score) + softplus(negative_scores).mean(axis=1))


def _glove(
    dot: Array, bias: Array, other_bias: Array, counts: Array, most: float
) -> Iterator[Array]:
    weight = np.minimum((counts / most) ** 0.75, 1)
    yield from reductions(weight * (dot + bias + other_bias - np.log(counts)) ** 2)


def _dcg(relevance: Array) -> Array:
    return ((2**relevance - 1) / np.log2(np.arange(len(relevance)) + 2)).sum()


def _ndcg(scores: Array, relevance: Array) -> Iterator[Array]:
    for gain in (relevance, np.log2(relevance + 1)):
        yield _dcg(gain[np.argsort(-scores)]) / _dcg(np.sort(gain)[::-1])


def _listwise(scores: Array, relevance: Array) -> Iterator[Array]:
    yield from reductions(-softmax(relevance) * log_softmax(scores))


def _plackett_luce(scores: Array) -> Iterator[Array]:
    """Of scores in the right order, best first."""
    rest = np.logaddexp.accumulate(scores[..., ::-1], axis=-1)[..., ::-1]
    yield from reductions(rest - scores)


_RENDLE = "Rendle et al., BPR: Bayesian personalized ranking, 2009; Bradley and Terry 1952"

ROWS = (
    Formula("margin ranking loss", ("rank*", "margin"),
            "positive_score[*], negative_score[*], margin[]", _ranking,
            "Herbrich, Graepel and Obermayer, Large margin rank boundaries for ordinal "
            "regression, 2000", "factor"),
    Formula("pairwise logistic loss", ("bpr*", "rank*", "bradley", "chosen", "prefer*", "reward*"),
            "positive_score[*], negative_score[*]", _pairwise_logistic, _RENDLE, "factor"),
    Formula("negative sampling loss", ("sgns", "skipgram", "word2vec", "neg*", "negative*"),
            "positive_score[n], negative_scores[n k]", _negative_sampling,
            "Mikolov et al., Distributed representations of words and phrases, 2013, equation 4",
            "factor"),
    Formula("GloVe loss", ("glove*", "cooc*"),
            "dot[n], bias[n], other_bias[n], counts[n], most[]", _glove,
            "Pennington, Socher and Manning, GloVe, 2014, equation 8", "factor"),
    Formula("normalized discounted cumulative gain", ("ndcg*", "dcg*"),
            "scores[n], relevance[n]", _ndcg, "Järvelin and Kekäläinen, Cumulated gain-based "
            "evaluation of IR techniques, 2002; Burges et al. 2005"),
    Formula("ListNet loss", ("listnet", "listwise", "rank*"), "scores[*], relevance[*]",
            _listwise, "Cao et al., Learning to rank: from pairwise approach to listwise "
            "approach, 2007", "factor"),
    Formula("Plackett-Luce likelihood", ("plackett", "listmle", "luce"), "scores[*]",
            _plackett_luce, "Plackett, The analysis of permutations, 1975", "factor"),
    Formula("pairwise logistic loss with a scale or a margin",
            ("bpr*", "rank*", "bradley", "chosen", "prefer*", "reward*"),
            "positive_score[*], negative_score[*], beta[]", _scaled_logistic, _RENDLE, "factor"),
)  # fmt: skip
"""Rows of this theme."""
