"""Our own functions at ordinary points, kinks, ties and edges."""

from __future__ import annotations

from typing import Any

import chainrule as cr

from .case import Correct, Row, checks, own_args

UNARY = {
    "4,5": (
        *("exp", "sin", "cos", "tanh", "atan", "erf", "sinh", "cosh", "expm1", "abs", "asinh"),
        *("square", "sigmoid", "relu", "gelu", "silu", "softplus", "elu", "leaky_relu", "sinc"),
        *("gelu_tanh", "gelu_erf", "exp2", "erfc", "ndtr"),
    ),
    "+4,5": ("log", "sqrt", "rsqrt", "log1p", "reciprocal", "lgamma", "digamma", "log2", "cbrt"),
    "%4,5": ("asin", "acos", "atanh", "logit", "erfinv", "entr"),
    "^4,5": ("acosh",),
}
MATHS: list[Row] = [(name, getattr(cr, name), s) for s, names in UNARY.items() for name in names]
SHAPES: list[Row] = [
    ("mul broadcast", cr.mul, "4,1", "5"),
    ("div broadcast", cr.div, "4,5", "+5"),
    ("pow", cr.pow, "+4,5", "5"),
    ("matmul vector", cr.matmul, "3,4", "4"),
    ("matmul broadcast", cr.matmul, "3,4", "2,4,5"),
    ("einsum", lambda a, b: cr.einsum("ijk,kl->lji", a, b), "2,3,4", "4,5"),
    ("cumsum", lambda x: cr.cumulative_sum(x, axis=1), "3,4"),
    ("cumprod", lambda x: cr.cumulative_prod(x, axis=0), "4,3"),
    ("prod", cr.prod, "5"),
    ("prod with a zero", lambda x: cr.prod(x * cr.tensor([1.0, 0.0, 1.0, 1.0])), "4"),
    ("std", cr.std, "4,5"),
    ("var", lambda x: cr.var(x, axis=1), "4,5"),
    ("logsumexp", lambda x: cr.logsumexp(x, axis=1), "4,5"),
    ("norm", cr.norm, "4,5"),
    ("max", lambda x: cr.max(x, axis=1), "!4,5"),
    ("median", cr.median, "!5"),
    ("sort", lambda x: cr.sort(x, axis=1), "!3,5"),
    ("topk", lambda x: cr.topk(x, 2)[0], "!3,5"),
    ("take", lambda x, i: cr.take(x, i, axis=0), "5,3", "#5:7"),
    ("where", lambda a, b: cr.where(a > 0, a * b, b), "4,5", "4,5"),
    ("concat", lambda a, b: cr.concat([a, b], axis=1), "3,2", "3,4"),
    ("flip", lambda x: cr.flip(x, axis=0), "4,3"),
    ("roll", lambda x: cr.roll(x, 2, axis=0), "4,3"),
    ("tril", cr.tril, "4,4"),
    ("atan2", cr.atan2, "4,5", "4,5"),
    ("hypot", cr.hypot, "4,5", "4,5"),
    ("cdist", cr.cdist, "4,3", "5,3"),
    ("logaddexp", cr.logaddexp, "4,5", "4,5"),
    ("pad", lambda x: cr.pad(x, ((1, 0), (2, 1))), "3,4"),
    ("diff", cr.diff, "3,5"),
    ("outer", cr.outer, "3", "4"),
    ("index", lambda x: x[1:, ::2], "4,5"),
    ("transposed", lambda x: cr.permute_dims(x, (2, 0, 1)), "2,3,4"),
    ("empty", cr.exp, "0,3"),
    ("scalar", cr.sin, ""),
    ("one element", cr.tanh, "1,1"),
]
NETWORK: list[Row] = [
    ("linear", cr.linear, "5,4", "3,4", "3"),
    ("softmax", lambda x: cr.softmax(x, axis=-1), "3,4"),
    ("log_softmax", lambda x: cr.log_softmax(x, axis=0), "3,4"),
    ("layer_norm", lambda x, w, b: cr.layer_norm(x, w, b), "4,6", "6", "6"),
    ("rms_norm", cr.rms_norm, "4,6", "6"),
    ("attention", cr.scaled_dot_product_attention, "2,5,4", "2,6,4", "2,6,3"),
    ("cross_entropy", cr.cross_entropy, "6,4", "#4:6"),
    ("mse", cr.mse_loss, "4,5", "4,5"),
    ("bce", cr.binary_cross_entropy_with_logits, "4,3", "%4,3"),
    ("embedding", cr.embedding, "5,3", "#5:2,4"),
    ("normalize", cr.normalize, "3,4"),
    ("cosine", cr.cosine_similarity, "4,5", "4,5"),
]
LINALG: list[Row] = [
    ("cholesky", lambda a: cr.linalg.cholesky(a @ a.mT + 3 * cr.eye(3)), "3,3"),
    ("inv", cr.linalg.inv, "h3,3"),
    ("det", cr.linalg.det, "h3,3"),
    ("solve", cr.linalg.solve, "h3,3", "3,2"),
    ("svdvals", cr.linalg.svdvals, "4,3"),
    ("qr", lambda a: cr.linalg.qr(a)[1], "4,3"),
    ("eigvalsh", lambda a: cr.linalg.eigvalsh(a + a.mT), "3,3"),
    ("fft", cr.fft.fft, "c3,8"),
    ("rfft", cr.fft.rfft, "3,8"),
    ("complex mul", cr.mul, "c3,4", "c3,4"),
    ("complex abs", cr.abs, "c3,4"),
    ("complex exp", cr.exp, "c3,4"),
]
KINKS: list[Row] = [
    ("relu at 0", cr.relu, "~4,5"),
    ("abs at 0", cr.abs, "~4,5"),
    ("clip at bounds", lambda x: cr.clip(x, -1, 1), "~4,5"),
    ("maximum of equals", cr.maximum, "~4,5", "~4,5"),
    ("max of ties", lambda x: cr.max(x, axis=1), "~4,5"),
    ("min of ties", lambda x: cr.min(x, axis=0), "~5,4"),
    ("sort of equals", lambda x: cr.sort(x, axis=1), "~4,6"),
    ("sign", cr.sign, "4,5"),
    ("round", cr.round, "4,5"),
    ("norm at 0", lambda x: cr.norm(x * 0) + cr.sum(x), "3,4"),
    ("elu at 0", cr.elu, "~4,5"),
    ("leaky at 0", cr.leaky_relu, "~4,5"),
    ("topk of ties", lambda x: cr.topk(x, 3)[0], "~4,6"),
    ("cummax of ties", lambda x: cr.cummax(x, axis=1)[0], "~3,6"),
]
SCALES: list[Row] = [
    (f"{name} {scale}", f, *[f"*{scale}:{s}" for s in shapes])
    for scale in ("1e-12", "1e-6", "1e6")
    for name, f, *shapes in [
        ("matmul", cr.matmul, "3,4", "4,2"),
        ("mse", cr.mse_loss, "4,3", "4,3"),
        ("tanh", cr.tanh, "4,5"),
        ("softmax", lambda x: cr.softmax(x, axis=-1), "4,5"),
        ("logsumexp", lambda x: cr.logsumexp(x, axis=-1), "4,5"),
        ("square", cr.square, "4,5"),
    ]
]


def cases() -> list[Correct]:
    """Every function, in the dtypes that it has."""
    both, full = ("float64", "float32"), ("float64",)
    low = ("float64", "float32", "float16")
    groups: list[Any] = [
        *[("maths", MATHS, low), ("shape", SHAPES, both), ("network", NETWORK, low)],
        *[("linalg", LINALG, full), ("kink", KINKS, low), ("scale", SCALES, both)],
    ]
    first = [c for title, rows, d in groups for c in checks(f"own {title}", rows, d, own_args)]
    again = checks("own order 2", [*MATHS, *NETWORK], full, own_args, order=2)
    return [*first, *again]
