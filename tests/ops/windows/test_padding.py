"""Padding: NumPy's opinion of every mode, widths beyond the array, all orders of derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ConfigError
from tests.ops.against_torch import Pair, forward, generic, second_order, torch, value_and_vjp

F = torch.nn.functional
MODES = ("edge", "wrap", "reflect", "symmetric")
WIDTHS = [((0, 0), (0, 0)), ((1, 2), (2, 1)), ((0, 3), (5, 0)), ((7, 9), (11, 8))]


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (1, 2), (2, 1)])
@pytest.mark.parametrize("mode", MODES)
def test_agrees_with_numpy(mode: Any, shape: tuple[int, int], widths: Any):
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    ours = cr.pad(cr.tensor(x), widths, mode=mode)
    np.testing.assert_array_equal(ours.numpy(), np.pad(x, widths, mode=mode))
    np.testing.assert_array_equal(np.pad(cr.tensor(x), widths, mode=mode).numpy(), ours.numpy())  # type: ignore[attr-defined]
    assert ours.dtype == x.dtype


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(1, 2, 2, 0), (-1, 2, 1, -1)], ids=str)
def test_agrees_with_torch(mode: str, widths: tuple[int, ...]):
    def ours(x: Any) -> Any:
        return cr.nn.functional.pad(x, widths, mode)

    def theirs(x: Any) -> Any:
        return F.pad(x, widths, mode)

    x = generic(2, 2, 3, 4)
    pair = Pair(f"{mode} {widths}", ours, theirs, (x,))
    value_and_vjp(pair)
    forward(pair)
    second_order(Pair(pair.name, lambda x: ours(x) ** 3, lambda x: theirs(x) ** 3, (x,)))


def test_a_constant_in_pytorchs_form():
    x = generic(2, 3, 4)
    for widths in ((), (1, 2), (0, 1, 2, 0), (-1, 2, 1, -2), (3, 0, -2, 1, 0, 2)):
        ours = cr.nn.functional.pad(cr.tensor(x), widths, value=0.75).numpy()
        np.testing.assert_array_equal(ours, F.pad(torch.tensor(x), widths, value=0.75).numpy())


@pytest.mark.parametrize("mode", ["mean", "linear_ramp", "empty"])
def test_a_mode_of_numpys_that_computes_is_refused(mode: Any):
    with pytest.raises(ConfigError, match=mode):
        np.pad(cr.tensor([1.0, 2.0]), 1, mode=mode)
