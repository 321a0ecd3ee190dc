"""What the record of a step tells of axes and of uses of values: wrong lines, and right ones that
come near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import HEAD, MARKS

pytestmark = MARKS

LOOP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, {out})
        {init}
    def forward(self, x):
        {forward}
net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-2)
for step in range(4):
    X = torch.randn({batch}, 6)
    {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
PLAIN = "return self.b(torch.tanh(self.a(x)))"
CE = "loss = F.cross_entropy({}, torch.randint(0, 3, {}))"
TOKENS = "loss = F.cross_entropy({}, torch.randint(0, 4, (10, 5)))"
LSTM = "self.a = nn.LSTM(6, 8, batch_first={})"
SCORES = (
    "q = k = self.a(x).view(10, 5, 2, 4).transpose(1, 2)\n        s = q @ k.transpose(-2, -1)\n"
)
MIX = "        return self.b((p @ k).transpose(1, 2).reshape(10, 5, 8))"
SQUARE = "loss = net(X).square().mean()"
GRAM = "z = F.normalize(net(X), dim={})\n    s = z @ z.t() / 0.5\n    {}"
CHOICE = "loss = F.cross_entropy(s, torch.arange(12).roll(6))"
QS = (
    "q = net(X).gather(1, torch.randint(0, 3, (12, 1))).squeeze(1)\n"
    "    nxt = net(torch.randn(12, 6)).max(1).values{}\n"
    "    target = torch.randn(12) + 0.9 * (torch.rand(12) > 0.1).float() * nxt\n    {}"
)
PENALTY = (
    "X.requires_grad_()\n    (g,) = torch.autograd.grad(net(X).sum(), X, create_graph=True)\n"
    "    loss = net(X).mean() + ((g.norm(2{}) - 1) ** 2).mean()"
)
SUM = "log_w = net(torch.randn(7, 12, 6)).squeeze(-1)\n    loss = -({} - {}).mean()"
ADAPTER = (
    "self.A, self.B = nn.Parameter({}), nn.Parameter({})",
    "return self.b(torch.tanh(self.a(x) + F.linear(F.linear(x, self.A), self.B)))",
)
GRAPH = "h = self.a(x)\n        s = torch.zeros(4, 8)\n        {}\n        return self.b(s)"
VAE = (
    "m, v = self.b(torch.tanh(self.a(x))).chunk(2, -1)\n"
    "        return m, v, m + {} * torch.randn_like(m)"
)
ELBO = "m, v, z = net(X)\n    loss = (z - X[:, :2]).square().mean() + ({}).sum(1).mean()"
MASKED = SCORES + "        m = {}\n        p = {}\n" + MIX

CASES = {
    "a reshape for a transposition": ("axes_mixed", 4, "", PLAIN, "10, 5", TOKENS.format(
        "net(X).reshape(10, 4, 5)", "")),
    "a transposition": ("", 4, "", PLAIN, "10, 5", TOKENS.format("net(X).transpose(1, 2)", "")),
    "a reshape that joins": ("", 4, "", PLAIN, "10, 5",
        "loss = F.cross_entropy(net(X).reshape(50, 4), torch.randint(0, 4, (50,)))"),
    "the last example": ("axes_mixed", 3, LSTM.format(False),
        "return self.b(self.a(x)[0][:, -1])", "5, 5", CE.format("net(X)", "(5,)")),
    "the last example, batch first": ("axes_mixed", 3, LSTM.format(True),
        "return self.b(self.a(x)[0][-1])", "5, 5", CE.format("net(X)", "(5,)")),
    "the last step": ("", 3, LSTM.format(True), "return self.b(self.a(x)[0][:, -1])",
        "5, 5", CE.format("net(X)", "(5,)")),
    "the last step, time first": ("", 3, LSTM.format(False),
        "return self.b(self.a(x)[0][-1])", "5, 5", CE.format("net(X)", "(5,)")),
    "a softmax over heads": ("axes_mixed", 3, "", SCORES + "        p = s.softmax(1)\n" + MIX,
        "10, 5", SQUARE),
    "a softmax over keys": ("", 3, "", SCORES + "        p = s.softmax(-1)\n" + MIX, "10, 5",
        SQUARE),
    "clusters of rows": ("", 3, "", "h = self.a(x)\n        p = self.b(h).softmax(-1)\n"
        "        return p.transpose(1, 2) @ h", "10, 5", SQUARE),
    "a mask behind the softmax": ("mask_late", 3, "",
        MASKED.format("torch.ones(5, 5).tril()", "s.softmax(-1) * m"), "10, 5", SQUARE),
    "a mask before the softmax": ("", 3, "",
        MASKED.format("torch.ones(5, 5).tril()", "s.masked_fill(m == 0, -1e9).softmax(-1)"),
        "10, 5", SQUARE),
    "a mask, and shares that are divided": ("", 3, "",
        MASKED.format("torch.ones(5, 5).tril()",
                      "s.softmax(-1) * m; p = p / p.sum(-1, keepdim=True)"), "10, 5", SQUARE),
    "a mask of the past": ("axes_mixed", 3, "",
        MASKED.format("torch.ones(5, 5).tril(-1).bool()",
                      "s.masked_fill(m, -1e9).softmax(-1)"), "10, 5", SQUARE),
    "a mask of the past, turned": ("axes_mixed", 3, "",
        MASKED.format("torch.ones(5, 5).triu()",
                      "F.softmax(s.masked_fill(m == 0, float('-inf')), dim=-1)"), "10, 5", SQUARE),
    "a mask of the past, by indices": ("axes_mixed", 3, "",
        MASKED.format("torch.arange(5)[:, None] > torch.arange(5)[None]",
                      "torch.softmax(torch.masked_fill(s, m, -1e9), -1)"), "10, 5", SQUARE),
    "a mask of the future": ("", 3, "",
        MASKED.format("torch.ones(5, 5).triu(1).bool()",
                      "s.masked_fill(m, -1e9).softmax(-1)"), "10, 5", SQUARE),
    "a mask of all others": ("", 3, "",
        MASKED.format("torch.eye(5).bool()", "s.masked_fill(m, -1e9).softmax(-1)"), "10, 5",
        SQUARE),
    "a softmax over queries": ("axes_mixed", 3, "", SCORES + "        p = s.softmax(-2)\n" + MIX,
        "10, 5", SQUARE),
    "a softmax over slots, divided": ("", 3, "", SCORES
        + "        p = s.softmax(-2); p = p / p.sum(-1, keepdim=True)\n" + MIX, "10, 5", SQUARE),
    "a variance for a deviation": ("wrong_value", 4, "", VAE.format("v.exp()"), 12,
        ELBO.format("-0.5 * (1 + v - m.square() - v.exp())")),
    "a variance for a deviation, otherwise written": ("wrong_value", 4, "", VAE.format(
        "torch.exp(v)"), 12, ELBO.format("0.5 * (m ** 2 + torch.exp(v) - v - 1)")),
    "a deviation": ("", 4, "", VAE.format("(0.5 * v).exp()"), 12,
        ELBO.format("-0.5 * (1 + v - m.square() - v.exp())")),
    "a logarithm of a deviation": ("", 4, "", VAE.format("v.exp()"), 12,
        ELBO.format("0.5 * (m.square() + (2 * v).exp() - 1) - v")),
    "dropout by hand": ("", 3, "",
        MASKED.format("(torch.rand(5, 5) > 0.1).float()", "s.softmax(-1) * m"), "10, 5", SQUARE),
    "columns of length 1": ("axes_mixed", 3, "", PLAIN, 12, GRAM.format(
        0, "s = s.fill_diagonal_(-1e9); " + CHOICE)),
    "rows of length 1": ("", 3, "", PLAIN, 12, GRAM.format(
        1, "s = s.fill_diagonal_(-1e9); " + CHOICE)),
    "correlations of features": ("", 3, "", PLAIN, 12,
        "z = F.normalize(net(X), dim=0)\n    loss = (z.t() @ z - torch.eye(3)).square().mean()"),
    "rows and themselves": ("self_compared", 3, "", PLAIN, 12, GRAM.format(1, CHOICE)),
    "rows of two views": ("", 3, "", PLAIN, 12,
        "a, b = (F.normalize(net(x), dim=1) for x in (X, X + 0.1))\n"
        "    loss = F.cross_entropy(a @ b.t() / 0.5, torch.arange(12))"),
    "one norm of all": ("axes_mixed", 1, "", PLAIN, 12, PENALTY.format("")),
    "norms of examples": ("", 1, "", PLAIN, 12, PENALTY.format(", dim=1")),
    "a count of another axis": ("axes_mixed", 1, "", PLAIN, 12, SUM.format(
        "torch.logsumexp(log_w, 1)", "math.log(7)")),
    "a count of the axis": ("", 1, "", PLAIN, 12, SUM.format(
        "torch.logsumexp(log_w, 0)", "math.log(7)")),
    "two factors of 0": ("no_gradient", 3, ADAPTER[0].format(
        "torch.zeros(2, 6)", "torch.zeros(8, 2)"), ADAPTER[1], 12, SQUARE),
    "one factor of 0": ("", 3, ADAPTER[0].format("torch.randn(2, 6)", "torch.zeros(8, 2)"),
        ADAPTER[1], 12, SQUARE),
    "rows more than once": ("overwritten", 3, "", GRAPH.format(
        "s[torch.arange(12) % 4] += h"), 12, SQUARE),
    "rows that are added up": ("", 3, "", GRAPH.format(
        "s = s.index_add(0, torch.arange(12) % 4, h)"), 12, SQUARE),
    "rows once": ("", 3, "", GRAPH.format("s[torch.arange(4)] += h[:4]"), 12, SQUARE),
    "a target with a graph": ("target_trained", 3, "", PLAIN, 12, QS.format(
        "", "loss = F.smooth_l1_loss(q, target)")),
    "a difference to it": ("target_trained", 3, "", PLAIN, 12, QS.format(
        "", "loss = (q - target).square().mean()")),
    "a target without a graph": ("", 3, "", PLAIN, 12, QS.format(
        ".detach()", "loss = F.smooth_l1_loss(q, target)")),
    "two views made alike": ("", 3, "", PLAIN, 12,
        "loss = F.mse_loss(net(X), net(X + 0.1)) + net(X).sub(1).square().mean()"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_axes_and_uses(tmp_path: Path, name: str) -> None:
    code, out, init, forward, batch, loss = CASES[name]
    text = LOOP.format(out=out, init=init or "pass", forward=forward, batch=batch, loss=loss)
    report = reported(tmp_path, f"import math\n{HEAD}{text}")
    found = [f.name.code for f in report.findings if f.level != "note"]
    assert found == ([code] if code else []), str(report)
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
