"""What calls share, and the line that is told without an edit."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import verify
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=3)

rng = np.random.default_rng(21)


def tensor(*shape: int) -> cr.Tensor:
    return cr.tensor(rng.normal(size=shape), requires_grad=True)


class Shared(cr.Function):
    """It keeps what it computes for all calls."""

    slope: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = cr.tanh(x)
        Shared.slope = 1 - y * y
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        del ctx
        return g * Shared.slope


def test_what_calls_share_is_told_where_it_is_kept() -> None:
    (finding,) = verify.function(Shared, tensor(4, 3)).findings
    assert finding.name.code == "stale"
    assert finding.place is not None
    assert finding.place.text == "Shared.slope = 1 - y * y"


class Hinge:
    """The class of the label should be ahead of the others."""

    def __init__(self) -> None:
        self.params = {"W": rng.normal(size=(5, 4)), "b": rng.normal(size=4)}

    def loss(self, x: Any, label: Any) -> Any:
        rows = np.arange(len(x))
        s = x @ self.params["W"] + self.params["b"]
        behind = np.maximum(0, s - s[rows, label][:, None] + 1.2)
        behind[rows, label] = 0
        loss = behind.sum()
        ds = np.where(behind > 0, 1.0, 0.0)
        grads = {
            "W": x.T @ ds,
            "b": ds.sum(axis=0),
        }
        return loss, grads


def test_without_an_edit_the_line_is_one_of_the_gradients() -> None:
    x, label = rng.normal(size=(7, 5)), rng.integers(0, 4, size=7)
    found = verify.pair(Hinge(), x, label).findings
    assert [f.name.code for f in found] == ["missing_term"] * 2
    for f in found:
        assert f.place is not None
        assert "ds" in f.place.text
