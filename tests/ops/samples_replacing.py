"""Sample arguments of replacements, order statistics without NaN, counts and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.nn import functional
from chainrule.ops import closeness
from chainrule.ops.indexing import counting, index_lists, order_statistics, replacing, sets
from chainrule.ops.indexing.selection import where
from chainrule.ops.reductions import finite_differences
from tests.ops.sample import Sample, apart

X, M, V = apart(2, 3, 4), apart(3, 4, salt=1), apart(5, salt=2)
PLACES = np.array([2, 0])
MASK = apart(3, 4, salt=5) > 0.3
GAPS = X.copy()
GAPS[0, 1, :2] = np.nan
POSITION = np.cumsum(apart(4, low=0.3, high=1.7, salt=3))


def case(name: str, f: Any, *args: Any, note: str = "", traceable: bool = True) -> Sample:
    return Sample(name, f, args, note, traceable)


REPLACING = [
    case("index_fill", lambda x: replacing.index_fill(x, 1, PLACES, 0.7), X),
    case(
        "masked_scatter",
        lambda x, y: replacing.masked_scatter(x, MASK, y),
        M,
        apart(11, salt=4),
    ),
    case("select_scatter", lambda x, y: replacing.select_scatter(x, y, 1, -1), M, apart(3, salt=6)),
    case(
        "slice_scatter",
        lambda x, y: replacing.slice_scatter(x, y, 1, 1, None, 2),
        M,
        apart(3, 2, salt=6),
    ),
    case(
        "diagonal_scatter",
        lambda x, y: replacing.diagonal_scatter(x, y, 1, -2, -1),
        X,
        apart(2, 3, salt=6),
    ),
    case("diagonal_scatter", replacing.diagonal_scatter, M, apart(3, salt=6), note="matrix"),
    *[
        case(
            "index_reduce",
            lambda x, y, reduce=reduce: replacing.index_reduce(
                x, 1, np.array([2, 0, 2, 1, 2]), y, reduce
            ),
            M,
            apart(3, 5, salt=8),
            note=reduce,
            traceable=reduce != "prod",
        )
        for reduce in ("prod", "mean", "amax", "amin")
    ],
]

STATISTICS = [
    case("nanquantile", lambda x: order_statistics.nanquantile(_gaps(x), 0.3, 1), X),
    case(
        "nanquantile",
        lambda x: order_statistics.nanquantile(_gaps(x), np.array([0.3, 0.8]), 1, keepdims=True),
        X,
        note="several",
    ),
    case("nanmedian", lambda x: order_statistics.nanmedian(_gaps(x), 2), X),
    case("nanmedian", lambda x: order_statistics.nanmedian(x), X, note="all"),
    case("mode", lambda x: order_statistics.mode(x, 1)[0], X),
    case("combinations", index_lists.combinations, V),
    case("combinations", lambda x: index_lists.combinations(x, 3, True), V, note="again"),
    case("heaviside", lambda x, y: closeness.heaviside(0.0 * x, y), M, apart(4, salt=3)),
]


def _gaps(x: Any) -> Any:
    """`x` with NaN in two places."""
    return where(np.isnan(GAPS), np.nan, x)


COUNTING = [
    case(
        "bincount",
        lambda w: counting.bincount(np.array([3, 1, 3, 0, 5]), w, minlength=4),
        V,
        traceable=False,
    ),
    case(
        "histogram",
        lambda w: counting.histogram(M, 4, range=(-1.5, 1.6), weight=w)[0],
        apart(3, 4, low=0.2, high=1.7, salt=9),
    ),
    case(
        "histogram",
        lambda w: counting.histogram(M, np.array([-1.5, 0.2, 1.6]), weight=w, density=True)[0],
        apart(3, 4, low=0.2, high=1.7, salt=9),
        note="density",
    ),
    case("unique_consecutive", sets.unique_consecutive, V, traceable=False),
]

DIFFERENCES = [
    case("gradient", lambda x: finite_differences.gradient(x)[0], M),
    case("gradient", lambda x: finite_differences.gradient(x, spacing=0.3, axis=1)[0], M),
    case(
        "gradient",
        lambda x, at: finite_differences.gradient(x, spacing=[at], axis=2, edge_order=2)[0],
        X,
        POSITION,
        note="coordinates",
    ),
    case(
        "softplus",
        lambda x: functional.softplus(x, 1.7, 2.0),
        X,
        note="beta",
    ),
]

SAMPLES = [*REPLACING, *STATISTICS, *COUNTING, *DIFFERENCES]
