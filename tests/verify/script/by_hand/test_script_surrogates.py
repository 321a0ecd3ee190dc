"""Functions of a script whose backward is meant to be no derivative, or cannot be run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.by_hand.test_script_gradients_at_hand import reported as observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=4),
]

SCRIPT = '''
import torch
from torch import nn
torch.manual_seed(0)

class Bounded(torch.autograd.Function):
    """{says}"""
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ({kept})

net = nn.Linear(4, 6)
opt = torch.optim.SGD(net.parameters(), 0.1)
X, Y = torch.randn(16, 4), torch.randn(16, 6)
for step in range(4):
    opt.zero_grad()
    (Bounded.apply(2 * net(X)) - Y).square().mean().backward()
    opt.step()
'''
CASES = {
    "right": ("Bounds.", "x.abs() <= 1", 0),
    "a slip": ("Bounds.", "x.abs() >= 1", 1),
    "the cotangent for the value": ("Bounds.", "g.abs() <= 1e-3", 1),
    "said so": ("Bounds; a surrogate by design.", "x.abs() <= 3", 0),
    "what brings it back": ("Bounds.", "(x.abs() <= 1) | ((x > 1) & (g > 0))", 0),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_meant_is_a_note(tmp_path: Path, name: str) -> None:
    says, kept, count = CASES[name]
    found = observed(tmp_path, SCRIPT.format(says=says, kept=kept)).findings
    assert len([f for f in found if f.level != "note" and f.subject == "Bounded"]) == count


RECOMPUTED = """
import torch
from torch import nn
torch.manual_seed(0)

class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, f, x, *params):
        ctx.f = f
        ctx.save_for_backward(x, *params)
        with torch.no_grad():
            return f(x)
    @staticmethod
    def backward(ctx, g):
        x, *params = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            y = ctx.f(x)
        return (None, *torch.autograd.grad(y, [x, *params], g))

body, out = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)), nn.Linear(4, 1)
opt = torch.optim.SGD([*body.parameters(), *out.parameters()], 0.1)
X, Y = torch.randn(16, 4), torch.randn(16, 1)
for step in range(4):
    opt.zero_grad()
    h = Recompute.apply(body.forward, X.requires_grad_(True), *body.parameters())
    (out(h) - Y).square().mean().backward()
    opt.step()
"""


def test_a_backward_that_ran_in_the_script_and_not_again_is_left_out(tmp_path: Path) -> None:
    report = observed(tmp_path, RECOMPUTED)
    assert not [f for f in report.findings if f.level != "note"]
    assert any("ran in the script" in row.why for row in report.ledger.skipped)
