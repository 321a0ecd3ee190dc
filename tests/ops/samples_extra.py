"""Sample arguments of special functions, activations, losses, distances, cutting and joining."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.ops.losses import losses
from chainrule.ops.losses import margin_losses as margin
from chainrule.ops.networks import activations as act
from chainrule.ops.reductions import distances
from chainrule.ops.shapes import arranging as extra
from chainrule.ops.special import table as special
from tests.ops.sample import Array, Sample, apart

X, M, V = apart(2, 3, 4), apart(3, 4, salt=1), apart(5, salt=2)
N = apart(3, 4, low=-1.7, high=1.9, salt=3)
P = apart(3, 4, low=0.1, high=0.9, salt=6)
SIGNS = np.where(apart(3, 4) > 0, 1, -1)
SIDES = np.array([1, -1, 1])
LABELS = np.array([2, 0, 3])
NAMED = np.array([[2, 0, -1, 1], [3, -1, 0, 0], [1, 3, 2, -1]])
ROWS = apart(4, 3, salt=8)


def case(name: str, f: Any, *args: Any, note: str = "") -> Sample:
    return Sample(name, f, args, note)


SPECIAL = [
    case("sinc", special.sinc, X),
    case("multigammaln", lambda x: special.multigammaln(x, 3), P + 1.5),
    case("logaddexp2", special.logaddexp2, M, N),
    case("ldexp", special.ldexp, M, N),
    case("frac", special.frac, X),
    case("deg2rad", special.deg2rad, X),
    case("rad2deg", special.rad2deg, X),
    case("nan_to_num", special.nan_to_num, X),
    case("lerp", special.lerp, M, N, P),
]

UNARY: dict[str, Any] = {
    name: getattr(act, name)
    for name in (
        *("celu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "logsigmoid", "mish"),
        *("relu6", "selu", "softmin", "softshrink", "softsign", "tanhshrink"),
    )
}
ACTIVATIONS = [
    *[case(name, f, X) for name, f in UNARY.items()],
    case("threshold", lambda x: act.threshold(x, 0.31, -0.7), X),
    case("glu", lambda x: act.glu(x, axis=-1), X),
    case("prelu", act.prelu, X, apart(3, salt=4)),
    case("prelu", lambda x, w: act.prelu(x, w), X, apart(salt=5), note="one weight"),
]

PAIRED: dict[str, Any] = {
    name: getattr(losses, name)
    for name in ["l1_loss", "huber_loss", "smooth_l1_loss", "poisson_nll_loss", "kl_div"]
}


def _at(f: Any, *fixed: Array, **options: Any) -> Any:
    """`f` with trailing arguments that are not differentiated."""
    return lambda *xs: f(*xs, *fixed, **options)


LOSSES = [
    *[case(name, f, M, P) for name, f in PAIRED.items()],
    *[case(name, _at(f, reduction="none"), M, P, note="none") for name, f in PAIRED.items()],
    case("huber_loss", _at(losses.huber_loss, delta=0.73, reduction="sum"), M, N, note="delta"),
    case("smooth_l1_loss", _at(losses.smooth_l1_loss, beta=0.6), M, N, note="beta"),
    case("poisson_nll_loss", _at(losses.poisson_nll_loss, log_input=False, full=True), P, 3 * P),
    case("kl_div", _at(losses.kl_div, log_target=True, reduction="batchmean"), M, N, note="logs"),
    case("gaussian_nll_loss", losses.gaussian_nll_loss, M, N, P),
    case("binary_cross_entropy", losses.binary_cross_entropy, P, apart(3, 4, low=0.1, high=0.9)),
    case("nll_loss", _at(losses.nll_loss, LABELS), M),
    case("nll_loss", lambda x, w: losses.nll_loss(x, LABELS, weight=w, ignore_index=0), M, P[0]),
    case("multilabel_soft_margin_loss", losses.multilabel_soft_margin_loss, M, P),
    case("soft_margin_loss", _at(margin.soft_margin_loss, SIGNS), M),
    case("hinge_embedding_loss", _at(margin.hinge_embedding_loss, SIGNS, margin=0.7), M),
    case("margin_ranking_loss", _at(margin.margin_ranking_loss, SIGNS, margin=0.3), M, N),
    case("multi_margin_loss", _at(margin.multi_margin_loss, LABELS, margin=1.3), M),
    case("multi_margin_loss", _at(margin.multi_margin_loss, LABELS, p=2), M, note="squares"),
    case("multilabel_margin_loss", _at(margin.multilabel_margin_loss, NAMED), M),
    case("triplet_margin_with_distance_loss", margin.triplet_margin_with_distance_loss, M, N, P),
    case("triplet_margin_loss", margin.triplet_margin_loss, M, N, 0.7 * P),
    case(
        "triplet_margin_loss",
        _at(margin.triplet_margin_loss, swap=True),
        M,
        N,
        P,
        note="swap",
    ),
    case("cosine_embedding_loss", _at(margin.cosine_embedding_loss, SIDES, margin=-0.9), M, N),
]

DISTANCES = [
    case("dist", lambda a, b: distances.dist(a, b, 3), M, N),
    case("cdist", distances.cdist, apart(2, 4, 3), apart(5, 3, salt=1)),
    case("cdist", _at(distances.cdist, ord=1), apart(4, 3), apart(5, 3, salt=1), note="one"),
    case("pdist", distances.pdist, ROWS),
    case("pairwise_distance", distances.pairwise_distance, M, N),
    case("pairwise_distance", _at(distances.pairwise_distance, ord=math.inf), M, N, note="inf"),
    case("cosine_similarity", distances.cosine_similarity, M, N),
    case("normalize", distances.normalize, M),
    case("normalize", _at(distances.normalize, ord=3, axis=0), M, note="cubes"),
    case("renorm", lambda x: distances.renorm(x, 2, 0, 2.2), M),
]

CUTTING = [
    case("narrow", lambda x: extra.narrow(x, 1, -2, 2), X),
    case("select", lambda x: extra.select(x, -1, 2), X),
    case("chunk", lambda x: extra.chunk(x, 3, axis=2)[1], X),
    case("tensor_split", lambda x: extra.tensor_split(x, 3, axis=2)[0], X),
    case("tensor_split", lambda x: extra.tensor_split(x, [1, 3], axis=2)[1], X, note="places"),
    case("unflatten", lambda x: extra.unflatten(x, -1, (2, -1)), X),
    case("unfold", lambda x: extra.unfold(x, 2, 3, 1), X),
    case("rot90", extra.rot90, X),
    case("rot90", lambda x: extra.rot90(x, -1, (2, 1)), X, note="back"),
]

JOINING = [
    case("atleast", lambda x: extra.atleast(x, 3), V),
    case("hstack", lambda a, b: extra.hstack([a, b]), M, apart(3, 2)),
    case("vstack", lambda a, b: extra.vstack([a, b]), M, apart(4, salt=7)),
    case("dstack", lambda a, b: extra.dstack([a, b]), M, N),
    case("column_stack", lambda a, b: extra.column_stack([a, b]), M, apart(3, salt=7)),
    case("block_diag", extra.block_diag, M, V, apart(2, 1)),
    case("cartesian_prod", extra.cartesian_prod, V, apart(3, salt=7), apart(2, salt=4)),
    case("diag", lambda x: extra.diag(x, -1), V),
    case("diag", lambda x: extra.diag(x, 1), M, note="of a matrix"),
]

COMBINING = [
    case("addmm", lambda x, a, b: extra.addmm(x, a, b, beta=0.7, alpha=1.3), V, M, apart(4, 5)),
    case("inner", extra.inner, X, apart(5, 4, salt=1)),
    case("trapezoid", lambda y, x: extra.trapezoid(y, x), M, apart(4, salt=7)),
    case("trapezoid", lambda y: extra.trapezoid(y, dx=0.3, axis=0), M, note="steps"),
    case("cumulative_trapezoid", lambda y: extra.cumulative_trapezoid(y, axis=0), M),
    case("nansum", lambda x: extra.nansum(x, axis=1), X),
    case("nanmean", lambda x: extra.nanmean(x, axis=(0, 2), keepdims=True), X),
    case("cov", extra.cov, M),
    case("cov", lambda x, w: extra.cov(x, weights=w), M, P[0], note="weights"),
    case("corrcoef", extra.corrcoef, M),
    case("vander", extra.vander, P),
    case("vander", lambda x: extra.vander(x, 3, increasing=False), P, note="falling"),
]

SAMPLES = [*SPECIAL, *ACTIVATIONS, *LOSSES, *DISTANCES, *CUTTING, *JOINING, *COMBINING]
