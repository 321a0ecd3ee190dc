"""PyTorch's functions, whose derivatives are right, at ordinary points, kinks, ties and edges."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from .case import Correct, Row, checks, torch_args

ACTIVATIONS: list[Row] = [
    ("relu", F.relu, "4,5"),
    ("gelu", F.gelu, "4,5"),
    ("elu", F.elu, "4,5"),
    ("celu", F.celu, "4,5"),
    ("selu", F.selu, "4,5"),
    ("silu", F.silu, "4,5"),
    ("mish", F.mish, "4,5"),
    ("softplus", F.softplus, "4,5"),
    ("softsign", F.softsign, "4,5"),
    ("tanhshrink", F.tanhshrink, "4,5"),
    ("hardtanh", F.hardtanh, "4,5"),
    ("hardswish", F.hardswish, "4,5"),
    ("relu6", F.relu6, "4,5"),
    ("hardsigmoid", F.hardsigmoid, "4,5"),
    ("logsigmoid", F.logsigmoid, "4,5"),
    ("glu", F.glu, "3,6"),
    ("softshrink", F.softshrink, "4,5"),
    ("leaky_relu", F.leaky_relu, "4,5"),
    ("prelu", F.prelu, "3,4", "4"),
    ("threshold", lambda x: F.threshold(x, 0.1, 20.0), "4,5"),
    ("softmin", lambda x: F.softmin(x, 1), "3,4"),
    ("softmax", lambda x: F.softmax(x, -1), "3,4"),
    ("log_softmax", lambda x: F.log_softmax(x, 0), "3,4"),
    ("normalize", F.normalize, "3,4"),
    ("sigmoid", torch.sigmoid, "4,5"),
    ("tanh", torch.tanh, "4,5"),
]
LAYERS: list[Row] = [
    ("linear", F.linear, "5,4", "3,4", "3"),
    ("bilinear", F.bilinear, "4,3", "4,2", "5,3,2", "5"),
    ("layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b), "4,6", "6", "6"),
    ("rms_norm", lambda x, w: F.rms_norm(x, (6,), w), "4,6", "6"),
    (
        "batch_norm",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        "7,3",
        "3",
        "3",
    ),
    ("instance_norm", F.instance_norm, "2,3,7"),
    ("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), "3,4,5", "4", "4"),
    ("conv1d", F.conv1d, "2,3,8", "4,3,3", "4"),
    ("conv2d", lambda x, w, b: F.conv2d(x, w, b, padding=1), "2,3,5,4", "4,3,3,3", "4"),
    ("conv2d strided", lambda x, w: F.conv2d(x, w, stride=2), "1,2,7,5", "3,2,3,3"),
    ("conv2d grouped", lambda x, w: F.conv2d(x, w, groups=2), "1,4,5,5", "6,2,3,3"),
    ("conv_transpose2d", F.conv_transpose2d, "1,3,4,5", "3,2,3,3"),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2), "!2,3,6,4"),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 2), "2,3,6,4"),
    ("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), "1,2,5,7"),
    ("lp_pool1d", lambda x: F.lp_pool1d(x, 3, 2), "+2,3,8"),
    ("unfold", lambda x: F.unfold(x, 2), "1,2,4,5"),
    ("interpolate", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), "1,2,3,4"),
    ("pad reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), "2,3,6"),
    ("embedding", lambda w, i: F.embedding(i, w), "5,3", "#5:2,4"),
    ("embedding_bag", lambda w, i: F.embedding_bag(i, w, mode="mean"), "5,3", "#5:2,4"),
    ("attention", F.scaled_dot_product_attention, "2,5,4", "2,6,4", "2,6,3"),
    (
        "causal attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "2,5,4",
        "2,5,4",
        "2,5,4",
    ),
    ("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), "1,8,2,3"),
    ("cosine_similarity", F.cosine_similarity, "4,5", "4,5"),
    ("local_response_norm", lambda x: F.local_response_norm(x, 3), "2,5,4"),
]
LOSSES: list[Row] = [
    ("mse_loss", F.mse_loss, "4,5", "4,5"),
    ("l1_loss", F.l1_loss, "4,5", "4,5"),
    ("huber_loss", F.huber_loss, "4,5", "4,5"),
    ("smooth_l1_loss", F.smooth_l1_loss, "4,5", "4,5"),
    ("cross_entropy", F.cross_entropy, "6,4", "#4:6"),
    (
        "cross_entropy smoothed",
        lambda z, t: F.cross_entropy(z, t, label_smoothing=0.1),
        "6,4",
        "#4:6",
    ),
    ("cross_entropy ignored", lambda z, t: F.cross_entropy(z, t, ignore_index=0), "6,4", "#4:6"),
    ("nll_loss", lambda z, t: F.nll_loss(F.log_softmax(z, 1), t), "6,4", "#4:6"),
    ("bce", F.binary_cross_entropy, "%4,3", "%4,3"),
    ("bce logits", F.binary_cross_entropy_with_logits, "4,3", "%4,3"),
    (
        "kl_div",
        lambda x, t: F.kl_div(F.log_softmax(x, 1), F.softmax(t, 1), reduction="batchmean"),
        "4,5",
        "4,5",
    ),
    ("poisson_nll_loss", F.poisson_nll_loss, "4,5", "+4,5"),
    ("gaussian_nll_loss", F.gaussian_nll_loss, "4,5", "4,5", "+4,5"),
    ("hinge_embedding", lambda x: F.hinge_embedding_loss(x, torch.ones_like(x)), "4,5"),
    ("margin_ranking", lambda a, b: F.margin_ranking_loss(a, b, torch.ones_like(a)), "6", "6"),
    ("soft_margin", lambda x: F.soft_margin_loss(x, torch.ones_like(x)), "4,5"),
    ("multi_margin", F.multi_margin_loss, "6,4", "#4:6"),
    ("triplet", F.triplet_margin_loss, "4,5", "4,5", "4,5"),
    ("multilabel_soft_margin", F.multilabel_soft_margin_loss, "4,5", "%4,5"),
]
MATHS: list[Row] = [
    (f.__name__, f, spec)
    for spec, fs in {
        "4,5": (
            torch.exp,
            torch.sin,
            torch.cos,
            torch.atan,
            torch.erf,
            torch.sinh,
            torch.cosh,
            torch.expm1,
            torch.abs,
            lambda x: torch.logcumsumexp(x, 1),
            torch.square,
            torch.sinc,
            torch.asinh,
        ),
        "+4,5": (
            torch.log,
            torch.sqrt,
            torch.rsqrt,
            torch.log1p,
            torch.reciprocal,
            torch.lgamma,
            torch.digamma,
            torch.log2,
        ),
        "%4,5": (torch.asin, torch.acos, torch.atanh, torch.logit, torch.erfinv),
        "^4,5": (torch.acosh,),
    }.items()
    for f in fs
]
SHAPES: list[Row] = [
    ("mul broadcast", torch.mul, "4,1", "5"),
    ("div broadcast", torch.div, "4,5", "+5"),
    ("pow", torch.pow, "+4,5", "5"),
    ("matmul vector", torch.matmul, "3,4", "4"),
    ("bmm", torch.bmm, "2,3,4", "2,4,5"),
    ("matmul broadcast", torch.matmul, "3,4", "2,4,5"),
    ("einsum", lambda a, b: torch.einsum("ijk,kl->lji", a, b), "2,3,4", "4,5"),
    ("outer", torch.outer, "3", "4"),
    ("cumsum", lambda x: torch.cumsum(x, 1), "3,4"),
    ("cumprod", lambda x: torch.cumprod(x, 0), "4,3"),
    ("prod", torch.prod, "5"),
    ("std", torch.std, "4,5"),
    ("var", lambda x: torch.var(x, 1), "4,5"),
    ("logsumexp", lambda x: torch.logsumexp(x, 1), "4,5"),
    ("norm", torch.linalg.norm, "4,5"),
    ("amax", lambda x: torch.amax(x, 1), "!4,5"),
    ("median", torch.median, "!5"),
    ("sort", lambda x: torch.sort(x, 1).values, "!3,5"),
    ("topk", lambda x: torch.topk(x, 2).values, "!3,5"),
    ("gather", lambda x, i: torch.gather(x, 1, i), "3,4", "#4:3,2"),
    ("index", lambda x, i: x[i], "5,3", "#5:7"),
    ("where", lambda a, b: torch.where(a > 0, a * b, b), "4,5", "4,5"),
    ("cat", lambda a, b: torch.cat([a, b], 1), "3,2", "3,4"),
    ("flip", lambda x: torch.flip(x, (0,)), "4,3"),
    ("roll", lambda x: torch.roll(x, 2, 0), "4,3"),
    ("tril", torch.tril, "4,4"),
    ("kron", torch.kron, "2,3", "3,2"),
    ("atan2", torch.atan2, "4,5", "4,5"),
    ("hypot", torch.hypot, "4,5", "4,5"),
    ("cdist", torch.cdist, "4,3", "5,3"),
    ("lerp", torch.lerp, "4,5", "4,5", "4,5"),
    ("empty", torch.exp, "0,3"),
    ("one element", torch.tanh, "1,1"),
    ("scalar", torch.sin, ""),
    ("empty batch", F.linear, "0,4", "3,4", "3"),
    ("integers beside", lambda x, n: x * n, "3,4", "#5:3,4"),
    ("as_strided", lambda x: x.t().reshape(-1), "3,4"),
]
LINALG: list[Row] = [
    ("cholesky", lambda a: torch.linalg.cholesky(a @ a.mT + torch.eye(3, dtype=a.dtype)), "3,3"),
    ("inv", torch.linalg.inv, "h3,3"),
    ("det", torch.linalg.det, "h3,3"),
    ("slogdet", lambda a: torch.linalg.slogdet(a)[1], "h3,3"),
    ("solve", torch.linalg.solve, "h3,3", "3,2"),
    ("svdvals", torch.linalg.svdvals, "4,3"),
    ("qr", lambda a: torch.linalg.qr(a)[1], "4,3"),
    ("matrix_exp", torch.linalg.matrix_exp, "3,3"),
    ("eigvalsh", lambda a: torch.linalg.eigvalsh(a + a.mT), "3,3"),
    ("pinv", torch.linalg.pinv, "4,3"),
]
COMPLEX: list[Row] = [
    ("complex mul", torch.mul, "c3,4", "c3,4"),
    ("complex abs", torch.abs, "c3,4"),
    ("complex exp", torch.exp, "c3,4"),
    ("fft", torch.fft.fft, "c3,8"),
    ("rfft", torch.fft.rfft, "3,8"),
    ("angle", torch.angle, "c3,4"),
    ("complex matmul", torch.matmul, "c3,4", "c4,2"),
    ("real", torch.real, "c3,4"),
    ("conj", lambda z: z.conj() * z, "c3,4"),
]
KINKS: list[Row] = [
    ("relu at 0", F.relu, "~4,5"),
    ("abs at 0", torch.abs, "~4,5"),
    ("clamp at bounds", lambda x: x.clamp(-1, 1), "~4,5"),
    ("maximum of equals", torch.maximum, "~4,5", "~4,5"),
    ("max of ties", lambda x: x.amax(1), "~4,5"),
    ("hardtanh at 1", F.hardtanh, "~4,5"),
    ("sort of equals", lambda x: x.sort(1).values, "~4,6"),
    ("relu6 at 0", F.relu6, "~4,5"),
    ("max_pool ties", lambda x: F.max_pool2d(x, 2), "~2,2,4,4"),
    ("l1 at 0", F.l1_loss, "~4,5", "~4,5"),
    ("leaky at 0", F.leaky_relu, "~4,5"),
    ("softshrink", F.softshrink, "~4,5"),
    ("hardswish at 3", lambda x: F.hardswish(3 * x), "~4,5"),
    ("norm at 0", lambda x: (x * 0).norm() + x.sum(), "3,4"),
    ("median of ties", torch.median, "~5"),
    ("min of ties", lambda x: x.min(0).values, "~5,4"),
    ("huber at 1", F.huber_loss, "~4,5", "~4,5"),
    ("round", torch.round, "4,5"),
    ("sign", torch.sign, "4,5"),
    ("floor", torch.floor, "4,5"),
    ("threshold at it", lambda x: F.threshold(x, 1.0, 0.0), "~4,5"),
    ("elu at 0", F.elu, "~4,5"),
    ("topk of ties", lambda x: x.topk(3).values, "~4,6"),
]
SCALES: list[Row] = [
    (f"{name} {scale}", f, *[f"*{scale}:{s}" for s in shapes])
    for scale in ("1e-12", "1e-6", "1e6")
    for name, f, *shapes in [
        ("matmul", torch.matmul, "3,4", "4,2"),
        ("mse", F.mse_loss, "4,3", "4,3"),
        ("tanh", torch.tanh, "4,5"),
        ("layer norm", lambda x: F.layer_norm(x, (5,)), "4,5"),
        ("softmax", lambda x: F.softmax(x, -1), "4,5"),
        ("logsumexp", lambda x: torch.logsumexp(x, -1), "4,5"),
        ("sigmoid", torch.sigmoid, "4,5"),
        ("square", torch.square, "4,5"),
    ]
]


def cases() -> list[Correct]:
    """Every function, in the dtypes that it has."""
    both, full = ("float64", "float32"), ("float64",)
    low = ("float64", "float32", "bfloat16", "float16")
    groups: list[Any] = [
        *[("activation", ACTIVATIONS, low), ("layer", LAYERS, both), ("loss", LOSSES, both)],
        *[("maths", _named(MATHS), low), ("shape", SHAPES, both), ("linalg", LINALG, full)],
        *[("complex", COMPLEX, both), ("kink", KINKS, low), ("scale", SCALES, both)],
    ]
    first = [c for title, rows, d in groups for c in checks(f"torch {title}", rows, d, torch_args)]
    again = checks("torch order 2", [*ACTIVATIONS, *LOSSES], full, torch_args, order=2)
    return [*first, *again]


def _named(rows: list[Row]) -> list[Row]:
    """Rows whose function has no name get one from where they stand."""
    return [(f"{i} {row[0].strip('<>')}", *row[1:]) for i, row in enumerate(rows)]
