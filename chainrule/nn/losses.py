"""Losses as modules: a table of their functions, with PyTorch's names and defaults.

Classes lie along axis 1, as in PyTorch, where the functions have them along the last.
"""

from __future__ import annotations

from typing import Any

from chainrule.nn import functional
from chainrule.nn.base.function_modules import Check, FunctionModule, Row, class_of_row

PAIR = ("x", "target")
EQUAL = '(*s), (*s) -> () if reduction != "none"; (*s), (*s) -> (*s)'
ANY = "(*s), (*t) -> (*u)"
OF_THREE = "(*s), (*t), (*r) -> (*u)"
_WAYS: Check = (lambda x: x in ("mean", "sum", "none"), "'mean', 'sum' or 'none'")

_REDUCTION = '`reduction` is "mean", "sum" or "none", for the loss of each element or example.'


def _of_classes(f: Any) -> Any:
    """A loss of classes along axis 1, or of one example."""

    def call(x: Any, target: Any, **settings: Any) -> Any:
        return f(x, target, axis=0 if x.ndim == 1 else 1, **settings)

    return call


def _kl_div(x: Any, target: Any, reduction: str, log_target: bool) -> Any:
    """With "batchmean" the sum over the number of examples."""
    if reduction != "batchmean":
        return functional.kl_div(x, target, reduction=reduction, log_target=log_target)
    total = functional.kl_div(x, target, reduction="sum", log_target=log_target)
    return total / x.shape[0] if x.ndim else total


def _row(f: Any, settings: dict[str, Any], doc: str, **more: Any) -> Row:
    """A loss of x and a target, which is reduced."""
    checks = more.pop("checks", {"reduction": _WAYS})
    settings = {**settings, "reduction": "mean"}
    doc = f"{doc}\n\n{_REDUCTION}"
    return Row(f, settings, doc=doc, inputs=more.pop("inputs", PAIR), checks=checks, **more)


TRIPLE = ("anchor", "positive", "negative")
PAIRED = ("a", "b", "target")
ROWS: dict[str, Row] = {
    "MSELoss": _row(functional.mse_loss, {}, "(x - target) squared.", shapes=EQUAL),
    "L1Loss": _row(functional.l1_loss, {}, "|x - target|.", shapes=EQUAL),
    "SmoothL1Loss": Row(
        functional.smooth_l1_loss, {"reduction": "mean", "beta": 1.0}, inputs=PAIR, shapes=EQUAL,
        doc="`HuberLoss` divided by its delta, beta.", checks={"reduction": _WAYS},
    ),
    "HuberLoss": Row(
        functional.huber_loss, {"reduction": "mean", "delta": 1.0}, inputs=PAIR, shapes=EQUAL,
        doc="Half the square of x - target, a straight line beyond delta.",
        checks={"reduction": _WAYS, "delta": (lambda x: x > 0, "a positive number")},
    ),
    "CrossEntropyLoss": _row(
        _of_classes(functional.cross_entropy),
        {"weight": None, "ignore_index": -100, "label_smoothing": 0.0},
        "-log softmax(x) at the target; classes along axis 1.", shapes=ANY,
    ),
    "NLLLoss": _row(
        _of_classes(functional.nll_loss), {"weight": None, "ignore_index": -100},
        "-x at the target, x being logarithms; classes along axis 1.", shapes=ANY,
    ),
    "BCELoss": _row(
        functional.binary_cross_entropy, {"weight": None}, "-log of the probability x of a target 0 or 1.",
        shapes=EQUAL,
    ),
    "BCEWithLogitsLoss": Row(
        functional.binary_cross_entropy_with_logits,
        {"weight": None, "reduction": "mean", "pos_weight": None},
        inputs=PAIR, doc="`BCELoss` of sigmoid(x), without overflow.", shapes=EQUAL,
        checks={"reduction": _WAYS},
    ),
    "KLDivLoss": Row(
        _kl_div, {"reduction": "mean", "log_target": False}, inputs=PAIR, shapes=ANY,
        doc='The divergence of target from exp(x); "batchmean" is its mean over examples.',
        checks={
            "reduction": (
                lambda x: x in ("mean", "sum", "none", "batchmean"),
                "'batchmean', 'mean', 'sum' or 'none'",
            )
        },
    ),
    "PoissonNLLLoss": _row(
        functional.poisson_nll_loss, {"log_input": True, "full": False, "eps": 1e-8},
        "-log of the Poisson probability of target at the rate exp(x).", shapes=EQUAL,
    ),
    "GaussianNLLLoss": _row(
        functional.gaussian_nll_loss, {"full": False, "eps": 1e-6},
        "-log of the normal density of target at mean x and a variance.",
        inputs=("x", "target", "variance"), shapes=OF_THREE,
    ),
    "HingeEmbeddingLoss": _row(
        functional.hinge_embedding_loss, {"margin": 1.0}, "x for target 1, max(0, margin - x) for -1.",
        shapes=EQUAL,
    ),
    "SoftMarginLoss": _row(
        functional.soft_margin_loss, {}, "log(1 + exp(-target x)), targets 1 and -1.", shapes=EQUAL
    ),
    "MultiLabelSoftMarginLoss": _row(
        functional.multilabel_soft_margin_loss, {"weight": None},
        "`BCEWithLogitsLoss`, its mean over the classes.", shapes=ANY,
    ),
    "MultiMarginLoss": _row(
        functional.multi_margin_loss, {"p": 1, "margin": 1.0, "weight": None},
        "max(0, margin - x at the target + x) of the other classes, to the power p.", shapes=ANY,
    ),
    "MarginRankingLoss": _row(
        functional.margin_ranking_loss, {"margin": 0.0}, "max(0, margin - target (a - b)).", inputs=PAIRED,
        shapes=OF_THREE,
    ),
    "CosineEmbeddingLoss": _row(
        functional.cosine_embedding_loss, {"margin": 0.0}, "1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1.",
        inputs=PAIRED, shapes=OF_THREE,
    ),
    "TripletMarginLoss": _row(
        functional.triplet_margin_loss, {"margin": 1.0, "p": 2.0, "eps": 1e-6, "swap": False},
        "max(0, margin + distance to positive - distance to negative).", inputs=TRIPLE,
        words={"p": "ord"}, shapes=OF_THREE,
    ),
    "MultiLabelMarginLoss": _row(
        functional.multilabel_margin_loss, {},
        "max(0, 1 - x[j] + x[i]) over classes j of the target and others i; -1 ends a target.",
        shapes=ANY,
    ),
    "TripletMarginWithDistanceLoss": _row(
        functional.triplet_margin_with_distance_loss,
        {"distance_function": None, "margin": 1.0, "swap": False},
        "`TripletMarginLoss` with any distance.", inputs=TRIPLE, shapes=OF_THREE,
    ),
    "CTCLoss": Row(
        functional.ctc_loss, {"blank": 0, "reduction": "mean", "zero_infinity": False},
        doc="-log of the probability of all ways in which the steps spell the targets.",
        inputs=("log_probs", "targets", "input_lengths", "target_lengths"),
        shapes='(*s), (*t), (*l), (*l) -> () if reduction != "none"; (*s), (*t), (*l), (*l) -> (*l)',
        checks={"reduction": _WAYS},
    ),
    "CosineSimilarity": Row(
        functional.cosine_similarity, {"dim": 1, "eps": 1e-8}, {"dim": "axis"}, inputs=("a", "b"),
        doc="The cosine of the angle between a and b along dim.", shapes=ANY,
    ),
    "PairwiseDistance": Row(
        functional.pairwise_distance, {"p": 2.0, "eps": 1e-6, "keepdim": False},
        {"p": "ord", "keepdim": "keepdims"}, inputs=("a", "b"),
        doc="The norm of a - b + eps along the last axis.", shapes=ANY,
    ),
}  # fmt: skip
CLASSES: dict[str, type[FunctionModule]] = {
    name: class_of_row(name, "chainrule.nn", r) for name, r in ROWS.items()
}
