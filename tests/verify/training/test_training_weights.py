"""Weights that a program applies by itself, without a module for each: flow of gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.sampling import sampled_file
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=12)


def codes(loop):
    found, _ = observed(loop)
    return [f.name.code for f in found if f.level != "note"], found


def functional(scale, act=torch.relu, way="linear", bias=0.0, layers=8):
    """A network that is a list of weights and biases."""
    ways = {
        "linear": F.linear,
        "matmul": lambda x, w, b: x @ w.T + b,
        "right": lambda x, w, b: torch.add(torch.matmul(x, w), b),
    }

    def loop():
        torch.manual_seed(0)
        ws = [(scale * torch.randn(32, 32)).requires_grad_() for _ in range(layers)]
        bs = [torch.full((32,), bias, requires_grad=True) for _ in ws]
        head = nn.Parameter(torch.randn(32, 1) / 6)
        o = torch.optim.SGD([*ws, *bs, head], 1e-14)
        for _ in range(3):
            x = torch.randn(64, 32)
            h = x
            for w, b in zip(ws, bs, strict=True):
                h = act(ways[way](h, w, b))
            o.zero_grad()
            ((h @ head - x[:, :1]) ** 2).mean().backward()
            o.step()

    return loop


@pytest.mark.sweep
@pytest.mark.parametrize("way", ["linear", "matmul", "right"])
@pytest.mark.parametrize(
    ("scale", "act", "expected"),
    [
        ((2 / 32) ** 0.5, torch.relu, []),
        ((1 / 32) ** 0.5, torch.tanh, []),
        (1.0, torch.relu, ["exploding"]),
        ((1 / 32) ** 0.5, torch.sigmoid, ["vanishing"]),
    ],
)
def test_a_list_of_weights_is_a_network(scale, act, way, expected):
    assert codes(functional(scale, act, way))[0] == expected


@pytest.mark.parametrize("way", ["linear", "matmul", "right"])
def test_units_behind_weights_may_be_dead(way):
    found, findings = codes(functional(0.25, torch.relu, way, bias=-30.0, layers=2))
    assert found == ["dead"]
    assert "relu" in findings[0].name.because


class Recurrent(nn.Module):
    """Two matrices of its own, one of them applied again and again."""

    def __init__(self, scale):
        super().__init__()
        torch.manual_seed(0)
        self.w_ih = nn.Parameter(torch.randn(3, 24) / 3**0.5)
        self.w_hh = nn.Parameter(scale * torch.randn(24, 24))
        self.out = nn.Linear(24, 1)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], 24)
        for x_t in x:
            h = torch.relu(x_t @ self.w_ih + h @ self.w_hh)
        return self.out(h)


@pytest.mark.parametrize(("scale", "expected"), [(0.2, []), (1.0, ["exploding"])])
def test_a_matrix_that_is_applied_again_and_again(scale, expected):
    def loop():
        m = Recurrent(scale)
        o = torch.optim.SGD(m.parameters(), 1e-12)
        for _ in range(3):
            x = torch.rand(15, 16, 3)
            o.zero_grad()
            m(x).mean().backward()
            o.step()

    found, findings = codes(loop)
    assert found == expected
    if expected:
        assert findings[0].input == "w_hh"
        assert findings[0].place.text.startswith("self.w_hh = nn.Parameter")


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
        (lambda m: m, lambda p: p.requires_grad, []),
        (lambda m: m, lambda p: True, ["no_gradient"]),
    ],
    ids=["base", "base, all given", "all", "all, and all given"],
)
def test_factors_that_begin_with_zero(frozen, given, expected):
    """They are fine unless they are frozen at 0 and were meant to be trained."""

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
