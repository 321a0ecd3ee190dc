"""Interpolation: PyTorch's opinion over sizes, scales and corners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chainrule.errors import ConfigError, DtypeError
from chainrule.ops.windows.resizing import interpolate
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

F = torch.nn.functional
LINE, PLANE = generic(2, 3, 5), generic(2, 2, 5, 4)

CASES: list[tuple[Any, dict[str, Any]]] = [
    (LINE, {"size": 8}),
    (LINE, {"size": 3}),
    (LINE, {"scale_factor": 1.7}),
    (PLANE, {"size": (3, 9)}),
    (PLANE, {"scale_factor": 2.0}),
    *[
        (x, {"size": size, "mode": mode, "align_corners": corners})
        for corners in (True, False)
        for x, mode, sizes in ((LINE, "linear", (1, 3, 9)), (PLANE, "bilinear", ((1, 7), (3, 2))))
        for size in sizes
    ],
    (PLANE, {"scale_factor": 1.7, "mode": "bilinear"}),
    (LINE, {"scale_factor": 0.6, "mode": "linear"}),
]


def _pair(x: Any, options: dict[str, Any]) -> Pair:
    return Pair(
        str(options),
        lambda x: interpolate(x, **options),
        lambda x: F.interpolate(x, **options),
        (x,),
    )


@pytest.mark.parametrize("pair", [_pair(*c) for c in CASES], ids=str)
def test_agrees_with_torch(pair: Pair) -> None:
    value_and_vjp(pair)
    forward(pair)
    second_order(
        Pair(pair.name, lambda x: pair.ours(x) ** 3, lambda x: pair.theirs(x) ** 3, pair.args)
    )


def test_float32_stays() -> None:
    y = interpolate(PLANE.astype(np.float32), 7, mode="bilinear")
    want = F.interpolate(torch.tensor(PLANE.astype(np.float32)), 7, mode="bilinear")
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, want.numpy(), rtol=1e-5, atol=1e-6)


def test_messages() -> None:
    with pytest.raises(ConfigError, match=r"not 'bilinear' with x \(2, 3, 5\)"):
        interpolate(LINE, 3, mode="bilinear")
    with pytest.raises(ConfigError, match="either size or scale_factor"):
        interpolate(LINE)
    with pytest.raises(ConfigError, match="scale_factor is 1 numbers > 0"):
        interpolate(LINE, scale_factor=-1.0)
    with pytest.raises(DtypeError, match="needs floats, not int64"):
        interpolate(np.zeros((1, 1, 3), np.int64), 2)
