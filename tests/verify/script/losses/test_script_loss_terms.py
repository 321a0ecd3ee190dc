"""Terms of a loss that train nothing, weights that meet a mean, straight-through the wrong way round;
and right programs that come near to them."""

# ruff: noqa: E501
# (the scripts stand as people write them)

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.losses.loss_scripts import HEAD, MARKS, only_the_marked_line

pytestmark = MARKS

CLS = (
    HEAD
    + """
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
opt = torch.optim.Adam(model.parameters(), lr=0.01)
X, Y = torch.randn(60, 6), torch.randint(0, 3, (60,))
for epoch in range(6):
    for k in range(0, 60, 20):
        x, y = X[k : k + 20], Y[k : k + 20]
        logits = model(x)
        ce = F.cross_entropy(logits, y)
{body}
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
"""
)


def cls(body: str) -> str:
    return CLS.format(body="\n".join("        " + row for row in body.strip("\n").split("\n")))


C: dict[str, str] = {}
C["a1"] = cls(
    "p = logits.softmax(1).max(1).values\npenalty = (p > 0.5).float().mean()  # HERE\nloss = ce + 0.3 * penalty"
)
C["a2"] = cls("pred = logits.argmax(1)  # HERE\nloss = ce + 0.5 * (pred != y).float().mean()")
C["a3"] = cls(
    "hidden = torch.tanh(model[0](x))\nsparsity = torch.round(hidden).abs().sum(1).mean()  # HERE\nloss = ce + 0.01 * sparsity"
)
C["a5"] = cls(
    "l0 = sum((q.abs() > 0.01).sum() for q in model.parameters())  # HERE\nloss = ce + 1e-3 * l0"
)
C["a6"] = cls(
    "per = F.cross_entropy(logits, y, reduction='none')\nbad = (logits.argmax(1) != y).to(per.dtype)  # HERE\nloss = (per + 0.2 * bad).mean()"
)
C["a7"] = cls("loss = ce\nloss += 0.1 * torch.sign(logits).sum(1).abs().mean()  # HERE")
C["a8"] = cls(
    "top = logits.topk(2, 1).indices[:, 0]  # HERE\nloss = torch.stack([ce, 0.2 * (top.float() - y.float()).abs().mean()]).sum()"
)
C["r_a1"] = cls(
    "p = logits.softmax(1)\nH = -(p * p.log()).sum(1).mean()\nloss = ce - 0.01 * H\nacc = (logits.argmax(1) == y).float().mean()\nprint(acc.item())"
)
C["r_a2"] = cls(
    "w = (logits.argmax(1) != y).float() + 0.5\nloss = (w * F.cross_entropy(logits, y, reduction='none')).mean()"
)
C["r_a3"] = cls("kl = (logits ** 2).mean().clamp(min=5.0)\nloss = ce + kl")
C["r_a4"] = cls(
    "loss = ce + F.relu(logits.abs().mean() - 100) + 0.1\ntotal = loss.item() + (logits.argmax(1) == y).sum().item()\nprint(total)"
)
C["r_a5"] = cls(
    "soft = logits.softmax(1)\nhard = F.one_hot(logits.argmax(1), 3).float()\nst = soft + (hard - soft).detach()\nloss = ce + 0.1 * (st * torch.tensor([0.1, 0.2, 0.7])).sum(1).mean()"
)
C["r_a6"] = cls(
    "mask = (logits.abs() < 3).float()\nloss = ce + 0.1 * (mask * logits ** 2).sum() / mask.sum()"
)
C["r_a7"] = cls("loss = (ce - 0.2).abs() + 0.2")
C["r_a8"] = cls(
    "m = logits.max(1, keepdim=True).values.detach()\nlse = (logits - m).exp().sum(1, keepdim=True).log() + m\nloss = (lse[:, 0] - logits.gather(1, y[:, None])[:, 0]).mean()"
)
C["r_a9"] = cls(
    "likely = torch.distributions.Normal(logits, 0.5).log_prob(torch.zeros(3)).sum(1).mean()\nloss = ce - 0.1 * likely"
)
C["g1"] = cls("w = torch.rand(20) + 0.5\nloss = (ce * w).mean()  # HERE")
C["g2"] = cls(
    "cw = torch.tensor([1.0, 2.5, 0.7])\nw = cw[y]\nloss = F.cross_entropy(logits, y) * w.mean()  # HERE"
)
C["g3"] = cls("w = torch.rand(20) + 0.5\nloss = (w * ce).sum() / w.sum()  # HERE")
C["g4"] = cls(
    "per = F.cross_entropy(logits, y, reduction='none').mean()\nconf = 1 - logits.softmax(1).gather(1, y[:, None]).squeeze(1).detach()\nloss = (conf ** 2 * per).mean()  # HERE"
)
C["g5"] = cls(
    "p = logits.softmax(1).gather(1, y[:, None]).squeeze(1)\nloss = ((1 - p) ** 2 * F.nll_loss(F.log_softmax(logits, 1), y)).mean()  # HERE"
)
C["g6"] = cls(
    "w = torch.rand(20, 1) + 0.5\nloss = (F.mse_loss(logits, F.one_hot(y, 3).float()) * w).sum()  # HERE"
)
C["r_g1"] = cls(
    "w = torch.rand(20) + 0.5\nloss = (F.cross_entropy(logits, y, reduction='none') * w).mean()"
)
C["r_g2"] = cls(
    "mask = (torch.rand(20) < 0.5).float()\nper = F.cross_entropy(logits, y, reduction='none')\nloss = (per * mask).sum() / mask.sum()"
)
C["r_g3"] = cls("n_tok = torch.tensor([3, 5, 2])\nloss = ce * n_tok.sum() / 10")
C["r_g4"] = cls("scale = logits.detach().abs().mean()\nloss = ce * (1 + 0.01 * scale)")
C["r_g5"] = cls(
    "lam = torch.tensor([0.7, 0.3])\nloss = (lam * torch.stack([ce, logits.pow(2).mean()])).sum()"
)
C["r_g6"] = cls(
    "w = torch.rand(20) + 0.5\nm = logits.mean()\nloss = ce + 0.1 * ((logits[:, 0] - m * w) ** 2).mean()"
)
C["n1"] = (
    HEAD
    + """
class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(6, 8); self.dec = nn.Linear(8, 6)
    def forward(self, x):
        z = torch.tanh(self.enc(x))
        q = torch.round(z * 4) / 4
        q = q + (z - q).detach()  # HERE
        return self.dec(q)
net = VQ()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
X = torch.randn(64, 6)
for it in range(12):
    loss = F.mse_loss(net(X), X)
    opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item())
"""
)
C["r_n1"] = C["n1"].replace("q + (z - q).detach()  # HERE", "z + (q - z).detach()")
C["n1c"] = (
    HEAD
    + """
enc, dec, book = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(16, 4)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], lr=1e-2)
X = torch.randn(64, 6)
for it in range(12):
    z = enc(X)
    k = torch.cdist(z, book.weight).argmin(1)
    q = book(k)
    vq = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
    st = q + (z - q).detach()  # HERE
    loss = F.mse_loss(dec(st), X) + vq
    opt.zero_grad(); loss.backward(); opt.step()
    print(loss.item())
"""
)
C["r_n1c"] = C["n1c"].replace("q + (z - q).detach()  # HERE", "z + (q - z).detach()")


@pytest.mark.parametrize("name", C)
def test_the_line_that_is_marked_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    only_the_marked_line(tmp_path, C[name])
