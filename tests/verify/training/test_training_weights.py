"""Factors of low rank, which begin with zero."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.sampling import sampled_file
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=12)


def codes(loop):
    found, _ = observed(loop)
    return [f.name.code for f in found if f.level != "note"], found


class LowRank(nn.Module):
    """A layer with two factors beside it, of which one begins with 0."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(16, 16)
        self.a, self.b = nn.Parameter(torch.randn(16, 2) / 4), nn.Parameter(torch.zeros(2, 16))

    def forward(self, x):
        return self.base(x) + x @ self.a @ self.b


@pytest.mark.parametrize(
    ("frozen", "given", "expected"),
    [
        (lambda m: m.base, lambda p: p.requires_grad, []),
        (lambda m: m.base, lambda p: True, []),
        (lambda m: m, lambda p: p.requires_grad, ["no_gradient"]),
        (lambda m: m, lambda p: True, ["no_gradient"]),
    ],
    ids=["base", "base, all given", "all", "all, and all given"],
)
def test_factors_that_begin_with_zero(frozen, given, expected):

    def loop():
        torch.manual_seed(0)
        m = nn.Sequential(LowRank(), nn.Tanh(), LowRank(), nn.Tanh(), nn.Linear(16, 1))
        for module in m:
            if isinstance(module, LowRank):
                frozen(module).requires_grad_(False)
        o = torch.optim.Adam(filter(given, m.parameters()), 1e-3)
        for _ in range(4):
            x = torch.randn(32, 16)
            o.zero_grad()
            m(x).pow(2).mean().backward()
            o.step()

    assert codes(loop)[0] == expected
