"""Derivatives that a script takes by itself, without a graph: a mistake where they are part of the
loss, and none where parameters go on with what was moved along them, or are moved themselves."""

from __future__ import annotations

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

START = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
X, Y = torch.randn(32, 3), torch.randn(32, 1)
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
last = net[2]
w, b = torch.randn(3, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
opt = torch.optim.Adam([*net.parameters(), w, b], lr=1e-3)
def slope(x, **how):
    x = x.clone().requires_grad_()
    y = net(x)
    (g,) = torch.autograd.grad(y.sum(), x, **how)
    return x, y, g
for _ in range(4):
"""
END = """
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
WRONG = {
    "equation": """
    x, y, g = slope(X, retain_graph=True)
    loss = (g[:, :1] + y - x[:, :1]).square().mean()
""",
    "penalty": """
    x, y, g = slope(X, retain_graph=True)
    loss = y.mean() + 10 * (g.norm(dim=1) - 1).square().mean()
""",
    "force": """
    x, y, g = slope(X, retain_graph=True)
    loss = F.mse_loss(y, Y) + F.mse_loss(-g, X)
""",
}
RIGHT = {
    "graph": """
    x, y, g = slope(X, create_graph=True)
    loss = (g[:, :1] + y - x[:, :1]).square().mean() + g.square().mean()
""",
    "attack": """
    x, y, g = slope(X, retain_graph=True)
    loss = F.mse_loss(net(X + 0.1 * g / g.norm(dim=1, keepdim=True)), Y) + F.mse_loss(y, Y)
""",
    "first_order": """
    gw, gb = torch.autograd.grad(F.mse_loss(X[:16] @ w + b, Y[:16]), [w, b])
    v, c = w - 0.1 * gw, b - 0.1 * gb
    gv, gc = torch.autograd.grad(F.mse_loss(X[:16] @ v + c, Y[:16]), [v, c], retain_graph=True)
    loss = F.mse_loss(X[16:] @ (v - 0.1 * gv) + c - 0.1 * gc, Y[16:]) + net(X).square().mean()
""",
    "balance": """
    y = net(X)
    one, two = F.mse_loss(y, Y), y.abs().mean()
    sizes = [torch.autograd.grad(t, last.weight, retain_graph=True)[0].norm() for t in (one, two)]
    loss = one + sizes[0] / (sizes[1] + 1e-4) * two
""",
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_derivative_in_the_loss_needs_a_graph(tmp_path, text):
    (cut,) = observed(tmp_path, START + text + END)[0]
    assert cut.name.code == "partly_detached"
    assert "torch.autograd.grad(y.sum(), x" in cut.place.text
    assert cut.correction.rechecked


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_a_derivative_that_is_not_to_be_differentiated(tmp_path, text):
    found, code, skipped = observed(tmp_path, START + text + END)
    assert (found, code, skipped) == ([], 0, [])
