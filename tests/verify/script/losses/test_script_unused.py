"""Derivatives of an inner loop of which nothing comes; and right programs."""

# (the scripts stand as people write them)

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.losses.loss_scripts import HEAD, MARKS, only_the_marked_line

pytestmark = MARKS

MAML = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
def task():
    a, b = torch.rand(1) * 2, torch.rand(1) * 3
    x = torch.rand(20, 1) * 4 - 2
    return x[:10], a * torch.sin(x[:10] + b), x[10:], a * torch.sin(x[10:] + b)
{defs}
for it in range(8):
    opt.zero_grad()
    total = 0.0
    for _ in range(3):
        xs, ys, xq, yq = task()
{body}
    (total / 3).backward()
    opt.step()
    print(total.item())
"""
)


def maml(body: str, defs: str = "") -> str:
    return MAML.format(
        defs=defs, body="\n".join("        " + row for row in body.strip("\n").split("\n"))
    )


FW = """
def forward(ps, x):
    h = torch.tanh(F.linear(x, ps[0], ps[1]))
    return F.linear(h, ps[2], ps[3])
"""

C: dict[str, str] = {}
C["r_b1"] = maml(
    """
inner = F.mse_loss(model(xs), ys)
grads = torch.autograd.grad(inner, list(model.parameters()), create_graph=True)
fast = [p - 0.1 * g for p, g in zip(model.parameters(), grads)]
total = total + F.mse_loss(forward(fast, xq), yq)""",
    FW,
)
C["r_b3"] = maml("""
x = xs.clone().requires_grad_()
out = model(x)
gx, = torch.autograd.grad(out.sum(), x, create_graph=True)
total = total + F.mse_loss(out, ys) + 0.1 * (gx ** 2).mean()""")
C["r_b4"] = maml("""
loss = F.mse_loss(model(xs), ys)
g = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
print(sum(float(q.norm()) for q in g))
total = total + loss""")
C["r_penalty"] = (
    HEAD
    + """
critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(critic.parameters(), lr=0.01)
for it in range(8):
    real, fake = torch.randn(16, 2) + 1, torch.randn(16, 2)
    x = (0.5 * real + 0.5 * fake).requires_grad_(True)
    g, = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    loss = critic(fake).mean() - critic(real).mean() + (g.norm(dim=1) - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
)


@pytest.mark.parametrize("name", C)
def test_the_line_that_is_marked_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    only_the_marked_line(tmp_path, C[name])


@pytest.mark.parametrize("name", C)
def test_grad_imported_by_its_name_is_heard_as_well(tmp_path: Path, name: str) -> None:
    text = C[name].replace("torch.autograd.grad(", "grad(")
    only_the_marked_line(tmp_path, f"from torch.autograd import grad\n{text}")
