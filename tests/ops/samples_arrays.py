"""Sample arguments of everything that is not elementwise: one line or a few per function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.ops.batching import no_examples
from tests.ops.sample import Array, Sample, apart

X = apart(2, 3, 4)
M, V, S = apart(3, 4, salt=1), apart(5, salt=2), apart(salt=3)
EMPTY = apart(0, 3)
P = apart(2, 3, 4, low=0.3, high=1.9)
INDEX = np.array([[2, 0, -1], [1, 1, 2]])
MASK = np.array([[True, False, True, True], [False, True, True, False], [True, True, False, True]])
ALONG = np.array([[[0, 2], [3, 1], [1, 1]], [[2, 2], [0, 3], [-1, 0]]])  # (2, 3, 2) into (2, 3, 4)
LABELS = np.array([2, 0, 3, 2, 1])
LOGITS = apart(5, 4, salt=4)
WEIGHTS = apart(4, low=0.2, high=1.7, salt=6)
SOFT = apart(5, 4, low=0.1, high=0.9, salt=5) / 2
PROBABILITIES = apart(3, 4, low=0.1, high=0.9, salt=6)
BCE = "binary_cross_entropy_with_logits"
PAIRED: dict[str, Any] = {"mse_loss": cr.mse_loss, BCE: cr.binary_cross_entropy_with_logits}
HEADS: tuple[Array, ...] = (apart(2, 3, 5), apart(2, 4, 5, salt=1), apart(2, 4, 6, salt=2))


def case(name: str, f: Any, *args: Any, note: str = "", traceable: bool = True) -> Sample:
    return Sample(name, f, args, note, traceable)


SHAPING = [
    case("reshape", lambda x: cr.reshape(x, (4, -1)), X),
    case("reshape", lambda x: cr.reshape(x, ()), apart(1, 1)),
    case("reshape", lambda x: cr.reshape(x, (3, 0, 2)), EMPTY),
    case("permute_dims", lambda x: cr.permute_dims(x, (2, 0, 1)), X),
    case("permute_dims", lambda x: cr.permute_dims(x, (-1, 0, 1)), X, note="negative"),
    case("permute_dims", lambda x: cr.permute_dims(x, ()), S),
    case("swapaxes", lambda x: cr.swapaxes(x, 0, -1), X),
    case("matrix_transpose", cr.matrix_transpose, X),
    case("moveaxis", lambda x: cr.moveaxis(x, 0, -1), X),
    case("moveaxis", lambda x: cr.moveaxis(x, (2, 0), (0, 1)), X, note="several"),
    case("expand_dims", lambda x: cr.expand_dims(x, (0, -1)), M),
    case("squeeze", lambda x: cr.squeeze(x, (0, -1)), apart(1, 3, 1)),
    case("flatten", cr.flatten, X),
    case("broadcast_to", lambda x: cr.broadcast_to(x, (2, 3, 4)), apart(3, 1)),
    case("broadcast_to", lambda x: cr.broadcast_to(x, (2, 3)), S),
    case("broadcast_to", lambda x: cr.broadcast_to(x, (0, 3)), apart(1, 3)),
    case("broadcast_to", lambda x: cr.broadcast_to(x, (70, 20, 3)), apart(20, 1), note="large"),
    case("broadcast_arrays", lambda a, b: cr.broadcast_arrays(a, b), apart(3, 1), apart(2, 1, 4)),
    case("flip", cr.flip, X),
    case("flip", lambda x: cr.flip(x, axis=(0, -1)), X, note="axes"),
    case("pad", lambda x: cr.pad(x, [(1, 2), (0, 3)], 0.7), M),
    case("pad", lambda x: cr.pad(x, [(2, 1), (1, 0)]), EMPTY),
    *[
        case("pad", lambda x, m=m: cr.pad(x, [(4, 2), (0, 3)], mode=m), M, note=m)
        for m in ("edge", "wrap", "reflect", "symmetric")
    ],
    case("roll", lambda x: cr.roll(x, 3), X, note="flat"),
    case("roll", lambda x: cr.roll(x, (1, -2), axis=(1, -1)), X, note="axes"),
    case("roll", lambda x: cr.roll(x, 2, axis=0) * 1.5, EMPTY),
    case("concat", lambda a, b, c: cr.concat([a, b, c], axis=1), M, apart(3, 2), apart(3, 0)),
    case("concat", lambda a, b: cr.concat([a, b], axis=None), M, V, note="flat"),
    case("concat", lambda a, b: cr.concat([a, b, a], axis=-1), M, apart(3, 2), note="twice"),
    case("stack", lambda a, b: cr.stack([a, b, a], axis=-1), M, apart(3, 4, salt=9)),
    case("unstack", lambda x: cr.unstack(x, axis=1)[::2], X),
    case("split", lambda x: cr.split(x, [1, 0, 3], axis=-1)[::2], X),
    case("split", lambda x: cr.split(x, 2)[1], V, note="size"),
    case("repeat", lambda x: cr.repeat(x, 3, axis=1), X),
    case("repeat", lambda x: cr.repeat(x, 2), M, note="flat"),
    case("tile", lambda x: cr.tile(x, (2, 1, 3)), M),
    case("tile", lambda x: cr.tile(x, (2,)), M, note="fewer"),
]

GETITEM = [
    ("int", lambda x: x[1]),
    ("slice", lambda x: x[:, 1:, ::-2]),
    ("negative", lambda x: x[-1, -2:, None, ..., 1]),
    ("empty", lambda x: x[:, 2:2]),
    ("array", lambda x: x[INDEX % 2]),
    ("array of tensors", lambda x: x[:, cr.tensor(INDEX)]),
    ("two arrays", lambda x: x[INDEX % 2, :, INDEX]),
    ("array and slice", lambda x: x[1, ::2, [3, 0, 0]]),
    ("nothing", lambda x: x[[]]),
]
MASKED = [
    ("bools", lambda x: x[:, MASK]),
    ("all bools", lambda x: x[x > 0.3]),
]

SELECTION = [
    *[case("getitem", f, X, note=note) for note, f in GETITEM],
    *[case("getitem", f, X, note=note, traceable=False) for note, f in MASKED],
    case("where", lambda c, a, b: cr.where(c, a, b), MASK, apart(3, 1), apart(4, salt=1)),
    case("where", lambda c, a: cr.where(c, a, 0.7), MASK, M, note="number"),
    case("where", lambda c, a: cr.where(c, -1.3, a), MASK, S, note="number left"),
    case("clip", lambda x: cr.clip(x, -0.9, 1.2), X),
    case(
        "clip",
        lambda x, a, b: cr.clip(x, a, b),
        X,
        apart(4, low=-2, high=-0.4),
        apart(3, 1, low=0.6),
    ),
    case("clip", lambda x: cr.clip(x, max=0.4), X, note="one bound"),
    case("take", lambda x, i: cr.take(x, i, axis=1), X, INDEX),
    case("take", lambda x, i: cr.take(x, i), X, INDEX * 3, note="flat"),
    case("take", lambda x: cr.take(x, [], axis=-1), X, note="nothing"),
    case("take_along_axis", lambda x, i: cr.take_along_axis(x, i, axis=-1), X, ALONG),
    case(
        "take_along_axis", lambda x, i: cr.take_along_axis(x, i, axis=1), X, INDEX[:1, :, None] % 3
    ),
    case("gather", lambda x, i: cr.gather(x, 2, i), X, ALONG),
    case(
        "scatter_add", lambda x, i, s: cr.scatter_add(x, -1, i, s), X, ALONG, apart(2, 3, 2, salt=8)
    ),
    case("embedding", cr.embedding, M, INDEX),
    case("embedding", cr.embedding, M, np.array(2), note="one"),
]

AXES: list[tuple[str, dict[str, Any]]] = [
    ("all", {}),
    ("axis", {"axis": 1}),
    ("negative", {"axis": -1, "keepdims": True}),
    ("axes", {"axis": (0, 2)}),
    ("no axes", {"axis": ()}),
]


def _reductions(name: str, **more: Any) -> list[Sample]:
    f = getattr(cr, name)
    kinds = [(note, kw) for note, kw in AXES if not (name in ("std", "var") and note == "no axes")]
    return [
        *[case(name, lambda x, kw=kw: f(x, **kw, **more), P, note=note) for note, kw in kinds],
        case(
            name, lambda x: f(x, axis=-1, **more), apart(2, 1, 3, low=0.4, high=1.7), note="size 1"
        ),
    ]


REDUCTION = [
    *_reductions("sum"),
    *_reductions("mean"),
    *_reductions("prod"),
    *_reductions("max"),
    *_reductions("min"),
    *_reductions("var"),
    *_reductions("std"),
    *_reductions("logsumexp"),
    *_reductions("norm"),
    case("sum", lambda x: cr.sum(x), S),
    case("sum", lambda x: cr.sum(x, axis=0), EMPTY, note="no elements"),
    case("prod", lambda x: cr.prod(x, axis=0), EMPTY, note="no elements"),
    case("logsumexp", lambda x: cr.logsumexp(x, axis=0), EMPTY, note="no elements"),
    case("norm", lambda x: cr.norm(x, axis=0), EMPTY, note="no elements"),
    case("prod", cr.prod, V, note="odd"),
    case("max", cr.max, S),
    case("norm", cr.norm, S),
    case("logsumexp", cr.logsumexp, S),
    case("var", lambda x: cr.var(x, axis=1, correction=1), X, note="unbiased"),
    case(
        "std", lambda x: cr.std(x, axis=(0, 2), correction=1.5, keepdims=True), X, note="correction"
    ),
    *[
        case("norm", lambda x, p=p: cr.norm(x, axis=1, ord=p), X, note=f"order {p}")
        for p in (1, 3, 0.7, -1.5, math.inf, -math.inf)
    ],
]

CONTRACTION = [
    *[
        case("matmul", cr.matmul, apart(*a), apart(*b, salt=1))
        for a, b in [
            ((2, 3), (3, 4)),
            ((3,), (3,)),
            ((3,), (3, 4)),
            ((2, 3), (3,)),
            ((5, 2, 3), (3, 4)),
            ((5, 2, 3), (5, 3, 4)),
            ((2, 3), (5, 3, 4)),
            ((5, 1, 2, 3), (4, 3, 2)),
            ((3,), (5, 3, 4)),
            ((5, 2, 3), (3,)),
            ((1, 2, 3), (5, 3, 4)),
            ((2, 0), (0, 3)),
            ((0, 3), (3, 2)),
            ((2, 1), (1, 3)),
        ]
    ],
    *[
        case(
            "einsum",
            lambda *xs, s=s: cr.einsum(s, *xs),
            *[apart(*n, salt=i) for i, n in enumerate(shapes)],
            note=s,
        )
        for s, shapes in [
            ("ij,jk->ik", [(2, 3), (3, 4)]),
            ("ij,kj", [(2, 3), (4, 3)]),
            ("bij,bjk,k->bi", [(2, 3, 4), (2, 4, 5), (5,)]),
            ("ii->i", [(3, 3)]),
            ("ii", [(3, 3)]),
            ("ij->ji", [(2, 3)]),
            ("ij->", [(2, 3)]),
            ("i,j->ij", [(2,), (3,)]),
            ("...ij,...jk->...ik", [(5, 2, 3), (5, 3, 4)]),
            ("...i,i->...", [(2, 3, 4), (4,)]),
            ("iji,j->ij", [(2, 3, 2), (3,)]),
            (",ij->ij", [(), (2, 3)]),
            ("ij,jk->k", [(2, 3), (3, 4)]),
            ("ij,jk->ik", [(2, 0), (0, 4)]),
            ("...ij,...jk->...ik", [(1, 2, 3), (5, 3, 4)]),
            ("ij,jk->ik", [(2, 1), (3, 4)]),
            ("iiij->ji", [(2, 2, 2, 3)]),
            ("...a->...", [(2, 3)]),
            ("ij,ij,ij->i", [(2, 3), (2, 3), (2, 3)]),
        ]
    ],
    case("tensordot", lambda a, b: cr.tensordot(a, b), X, apart(3, 4, 5)),
    case("tensordot", lambda a, b: cr.tensordot(a, b, axes=0), V, M, note="none"),
    case(
        "tensordot",
        lambda a, b: cr.tensordot(a, b, axes=([2, 0], [-1, 0])),
        X,
        apart(2, 5, 4),
        note="lists",
    ),
    case("outer", cr.outer, V, apart(3)),
    case("vecdot", cr.vecdot, X, apart(3, 4, salt=2)),
    case("vecdot", lambda a, b: cr.vecdot(a, b, axis=-2), X, apart(2, 3, 4, salt=2), note="axis"),
    case("linear", cr.linear, X, apart(5, 4), apart(5, salt=1)),
    case("linear", cr.linear, V, apart(3, 5), note="vector"),
]

COMPOSITE = [
    case("gelu", cr.gelu, X),
    case("gelu", lambda x: cr.gelu(x, approximate="tanh"), X, note="tanh"),
    case("leaky_relu", lambda x: cr.leaky_relu(x, 0.13), X),
    case("elu", lambda x: cr.elu(x, 1.7), X),
    *[
        case(n, lambda x, f=f, a=a: f(x, axis=a), X, note=f"axis {a}")
        for n, f in (("softmax", cr.softmax), ("log_softmax", cr.log_softmax))
        for a in (-1, 1)
    ],
    case("softmax", cr.softmax, apart(3, 1), note="one class"),
    *[
        case(
            "cross_entropy",
            lambda x, t, kw=kw: cr.cross_entropy(x, t, **kw),
            LOGITS,
            LABELS,
            note=str(kw),
        )
        for kw in (
            {},
            {"reduction": "none"},
            {"reduction": "sum", "ignore_index": 2},
            {"ignore_index": 2, "label_smoothing": 0.3},
            {"label_smoothing": 0.2},
        )
    ],
    *[
        case(
            "cross_entropy",
            lambda x, t, w, kw=kw: cr.cross_entropy(x, t, weight=w, **kw),
            LOGITS,
            target,
            WEIGHTS,
            note=f"weight {kw}",
        )
        for kw in ({}, {"label_smoothing": 0.3, "reduction": "none"}, {"label_smoothing": 0.2})
        for target in (LABELS, SOFT)
    ],
    case(
        "cross_entropy",
        lambda x, t: cr.cross_entropy(x, t, axis=1),
        X,
        np.array([[2, 0, 1, 1], [0, 2, 2, 1]]),
    ),
    *[
        case(
            "cross_entropy",
            lambda x, t, kw=kw: cr.cross_entropy(x, t, **kw),
            LOGITS,
            SOFT,
            note=f"soft {kw}",
        )
        for kw in ({}, {"label_smoothing": 0.3, "reduction": "none"})
    ],
    *[
        case(n, lambda x, t, f=f, r=r: f(x, t, reduction=r), M, PROBABILITIES, note=r)
        for n, f in PAIRED.items()
        for r in ("mean", "sum", "none")
    ],
    case("layer_norm", cr.layer_norm, X),
    case("layer_norm", cr.layer_norm, X, apart(4), apart(4, salt=1)),
    case("rms_norm", cr.rms_norm, X),
    case("rms_norm", cr.rms_norm, X, apart(4)),
    case("dropout", lambda x: cr.dropout(x, 0.4, generator=cr.Generator(3)), X),
    case("dropout", lambda x: cr.dropout(x, 0.4, training=False) * 2, X, note="off"),
    *[
        case(
            "scaled_dot_product_attention",
            lambda q, k, v, kw=kw: cr.scaled_dot_product_attention(q, k, v, **kw),
            *HEADS,
            note=note,
        )
        for note, kw in [
            ("", {}),
            ("causal", {"causal": True}),
            ("scale", {"scale": 0.3}),
            ("mask", {"mask": MASK}),
        ]
    ],
    case(
        "scaled_dot_product_attention",
        lambda q, k, v, m: cr.scaled_dot_product_attention(q, k, v, mask=m),
        *HEADS,
        M,
        note="learned mask",
    ),
    case("astype", lambda x: cr.astype(x, np.float64) * 1, X),
    case("no_examples", lambda x: no_examples((2, 3), x.dtype, [x]), X),
]

SAMPLES = [*SHAPING, *SELECTION, *REDUCTION, *CONTRACTION, *COMPOSITE]
