"""Sample arguments of scans, sorting, scatters, convolution, pooling, normalisation, resizing."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule.nn.ctc import ctc_loss
from chainrule.ops.indexing import scatter_reductions, scattering, sorting
from chainrule.ops.networks import embedding_bags, normalization
from chainrule.ops.reductions import scan
from chainrule.ops.shapes import rearranging
from chainrule.ops.shapes.shaping import astype
from chainrule.ops.signal import spectrograms
from chainrule.ops.windows import adaptive_pooling, grid_sampling, pooling, resizing, unpooling
from chainrule.ops.windows import convolution as conv
from tests.ops.sample import Sample, apart

X, M = apart(2, 3, 4), apart(3, 4, salt=1)
ROWS = np.array([[2, 0, 1, 1], [0, 2, 2, 1]])
PLACES = np.array([2, 0])
MASK = np.array(
    [[True, False, True, False], [False, True, True, False], [True, False, False, True]]
)
IMAGE, LINE = apart(2, 4, 5, 6, salt=2), apart(2, 4, 7, salt=3)
BLOCK = apart(2, 2, 3, 4, 5, salt=4)
TABLE, BAGS = apart(5, 3, salt=5), np.array([[2, 0, 3], [3, 4, 4]])


def case(name: str, f: Any, *args: Any, note: str = "", traceable: bool = True) -> Sample:
    return Sample(name, f, args, note, traceable)


SCANS = [
    case("cumulative_sum", lambda x: scan.cumulative_sum(x, axis=1), X),
    case("cumulative_sum", lambda x: scan.cumulative_sum(x, axis=-1, include_initial=True), M),
    case("cumulative_prod", lambda x: scan.cumulative_prod(x, axis=1), X),
    case("cumsum", lambda x: scan.cumsum(x, axis=0), M),
    case("cumprod", lambda x: scan.cumprod(x, axis=1), M),
    case("logcumsumexp", lambda x: scan.logcumsumexp(x, axis=1), M),
    case("cummax", lambda x: scan.cummax(x, axis=1)[0], M),
    case("cummin", lambda x: scan.cummin(x, axis=0)[0], M),
]
SORTING = [
    case("sort", lambda x: sorting.sort(x, axis=1), X),
    case("sort", lambda x: sorting.sort(x, axis=0, descending=True), M, note="down"),
    case("topk", lambda x: sorting.topk(x, 2, axis=1)[0], M),
    case("kthvalue", lambda x: sorting.kthvalue(x, 2, axis=0)[0], M),
    case("median", lambda x: sorting.median(x, axis=1), M),
    case("quantile", lambda x: sorting.quantile(x, 0.37, axis=1), M),
]
SCATTERS = [
    case("diff", lambda x: scattering.diff(x, axis=1), M),
    case("tril", lambda x: scattering.tril(x, k=1), X),
    case("triu", lambda x: scattering.triu(x, k=-1), X),
    case("diag_embed", scattering.diag_embed, M),
    case("index_add", lambda x, v: scattering.index_add(x, 0, PLACES, v), M, apart(2, 4, salt=5)),
    case("index_copy", lambda x, v: scattering.index_copy(x, 0, PLACES, v), M, apart(2, 4, salt=5)),
    case("index_select", lambda x: scattering.index_select(x, 0, PLACES), M),
    case("index_put", lambda x, v: scattering.index_put(x, PLACES, v), M, apart(2, 4, salt=5)),
    case("put", lambda x, v: scattering.put(x, np.array([7, 2, 11]), v), M, apart(3, salt=5)),
    case("masked_fill", lambda x: scattering.masked_fill(x, MASK, 0.73), M),
    case("masked_select", lambda x: scattering.masked_select(x, MASK), M, traceable=False),
    case(
        "scatter", lambda x, v: scattering.scatter(x, 0, ROWS[:, ::-1], v), M, apart(2, 4, salt=5)
    ),
    *[
        case(
            "scatter_reduce",
            lambda x, v, how=how: scatter_reductions.scatter_reduce(x, 0, ROWS, v, how),
            M,
            apart(2, 4, salt=5),
            note=how,
            traceable=how != "prod",  # it needs indices whose values are known
        )
        for how in ("sum", "mean", "prod", "amax", "amin")
    ],
]
WINDOWS = [
    case("conv1d", conv.conv1d, LINE, apart(3, 4, 3, salt=4), apart(3, salt=6)),
    case(
        "conv2d",
        lambda x, w: conv.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        IMAGE,
        apart(6, 2, 3, 2, salt=4),
    ),
    case("conv_transpose1d", conv.conv_transpose1d, LINE, apart(4, 3, 3, salt=4)),
    case(
        "conv_transpose2d",
        lambda x, w: conv.conv_transpose2d(x, w, stride=2, padding=1),
        apart(2, 4, 3, 4, salt=5),
        apart(4, 3, 3, 2, salt=4),
    ),
    case("unfold", lambda x: conv.unfold(x, (2, 3), padding=1), IMAGE),
    case("max_pool1d", lambda x: pooling.max_pool1d(x, 3, stride=2), LINE),
    case("max_pool2d", lambda x: pooling.max_pool2d(x, 2), IMAGE),
    case("avg_pool1d", lambda x: pooling.avg_pool1d(x, 3, stride=2), LINE),
    case("avg_pool2d", lambda x: pooling.avg_pool2d(x, (2, 3)), IMAGE),
    case("conv3d", lambda x, w: conv.conv3d(x, w, padding=(1, 0, 2)), BLOCK, apart(3, 2, 2, 3, 2)),
    case(
        "conv_transpose3d",
        lambda x, w: conv.conv_transpose3d(x, w, stride=(2, 1, 2), padding=1),
        BLOCK,
        apart(2, 3, 3, 2, 3),
    ),
    case("fold", lambda x: conv.fold(x, (4, 5), (2, 3), padding=1), apart(2, 12, 25, salt=2)),
    case("max_pool2d", lambda x: pooling.max_pool2d(x, 2, ceil_mode=True), IMAGE, note="ceil"),
    case("max_pool3d", lambda x: pooling.max_pool3d(x, (2, 2, 3)), BLOCK),
    case("avg_pool2d", lambda x: pooling.avg_pool2d(x, 2, ceil_mode=True), IMAGE, note="ceil"),
    case("avg_pool3d", lambda x: pooling.avg_pool3d(x, (2, 2, 3), divisor_override=5), BLOCK),
    case("adaptive_avg_pool", lambda x: adaptive_pooling.adaptive_avg_pool(x, (3, 4)), IMAGE),
    case("adaptive_max_pool", lambda x: adaptive_pooling.adaptive_max_pool(x, (3, 4)), IMAGE),
    case("pixel_shuffle", lambda x: rearranging.pixel_shuffle(x, 2), apart(2, 8, 2, 3)),
    case("pixel_unshuffle", lambda x: rearranging.pixel_unshuffle(x, 2), apart(2, 3, 4, 6)),
    case("channel_shuffle", lambda x: rearranging.channel_shuffle(x, 2), IMAGE),
    *[
        case(
            "embedding_bag",
            lambda w, m=mode: embedding_bags.embedding_bag(BAGS, w, mode=m, padding_idx=4),
            TABLE,
            note=mode,
        )
        for mode in ("sum", "mean", "max")
    ],
    *[
        case(
            "embedding_bag",
            lambda w, m=mode: embedding_bags.embedding_bag(
                BAGS.ravel(), w, np.array([0, 1, 1, 4]), mode=m
            ),
            TABLE,
            note=f"{mode}, flat",
        )
        for mode in ("sum", "mean", "max")
    ],
]
GRID = apart(2, 3, 2, 2, low=-1.4, high=1.3, salt=6)
PLACED = np.array([[[1, 2, 6], [0, 4, 5]], [[2, 3, 7], [1, 3, 4]]])
SIGNAL, TONES = apart(2, 13, salt=7), apart(2, 2, 3, 5, salt=8)
SPOKEN, STEPS, LENGTHS = np.array([[1, 2], [2, 2]]), np.array([5, 4]), np.array([2, 1])
LOGARITHMS = apart(5, 2, 3, low=-3.2, high=-0.3)
SAMPLED = [
    *[
        case(
            "grid_sample",
            lambda x, g, m=m: grid_sampling.grid_sample(x, g, mode=m),
            IMAGE, GRID, note=m,
        )
        for m in ("bilinear", "bicubic")
    ],
    case("grid_sample", lambda x: grid_sampling.grid_sample(x, GRID, mode="nearest"), IMAGE),
    *[
        case(
            "grid_sample",
            lambda x, g, p=p: grid_sampling.grid_sample(x, g, padding_mode=p, align_corners=True),
            IMAGE, GRID, note=p,
        )
        for p in ("border", "reflection")
    ],
    case("grid_sample", grid_sampling.grid_sample, BLOCK, apart(2, 2, 3, 1, 3, low=-0.9, high=0.8)),
    case("affine_grid", lambda t: grid_sampling.affine_grid(t, (2, 3, 4, 5)), apart(2, 2, 3)),
    case("max_unpool", lambda x: unpooling.max_unpool(x, PLACED, 2, stride=3), apart(2, 2, 3)),
    case("lp_pool", lambda x: unpooling.lp_pool(x, 2, (2, 3), stride=1), IMAGE),
    case("lp_pool", lambda x: unpooling.lp_pool(x, 3, 2), apart(2, 4, 7, low=0.3, high=2.1)),
    case(
        "stft",
        lambda x, w: astype(spectrograms.stft(x, 4, 3, window=w, return_complex=False), x.dtype),
        SIGNAL, apart(4, low=0.3, high=1.8, salt=9),
    ),
    case(
        "istft",
        lambda x, w: astype(spectrograms.istft(cr.complex(x[0], x[1]), 4, 2, window=w), x.dtype),
        TONES, apart(4, low=0.3, high=1.8, salt=9),
    ),
    case("ctc_loss", lambda x: ctc_loss(x, SPOKEN, STEPS, LENGTHS), LOGARITHMS),
    case(
        "ctc_loss",
        lambda x: ctc_loss(x, SPOKEN[0], STEPS[1], LENGTHS[0], reduction="sum"),
        LOGARITHMS[:, 0], note="one",
    ),
]  # fmt: skip
OTHERS = [
    case(
        "group_norm",
        lambda x, w, b: normalization.group_norm(x, 2, w, b),
        IMAGE,
        apart(4, salt=3),
        apart(4, salt=4),
    ),
    case("instance_norm", lambda x: normalization.instance_norm(x), IMAGE),
    case(
        "batch_norm",
        lambda x, w, b: normalization.batch_norm(x, weight=w, bias=b, training=True).y,
        IMAGE,
        apart(4, salt=3),
        apart(4, salt=4),
    ),
    case("interpolate", lambda x: resizing.interpolate(x, size=(7, 4), mode="bilinear"), IMAGE),
    case("interpolate", lambda x: resizing.interpolate(x, size=9, mode="nearest"), LINE),
    case("interpolate", lambda x: resizing.interpolate(x, size=(7, 4), mode="bicubic"), IMAGE),
    case("interpolate", lambda x: resizing.interpolate(x, size=(2, 5, 3), mode="trilinear"), BLOCK),
    case("interpolate", lambda x: resizing.interpolate(x, size=3, mode="area"), LINE),
    case("interpolate", lambda x: resizing.interpolate(x, size=9, mode="nearest-exact"), LINE),
]

SAMPLES = [*SCANS, *SORTING, *SCATTERS, *WINDOWS, *SAMPLED, *OTHERS]
