"""Axes that a reshape was to move, masks that keep nothing out, and values that meet themselves:
wrong lines, and right ones that come near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import HEAD, MARKS
from tests.verify.script.losses.test_script_axes import CE, LOOP, MIX, PLAIN, SCORES, SQUARE

pytestmark = MARKS

FLAT = "loss = F.cross_entropy({}, torch.randint(0, 4, (50,)))"
GRU = "self.a, self.b = nn.GRU(6, 8), nn.Linear(40, 3)"
GRU_HEAD = "return self.b({})"
STACKED = (
    "out = net(X)\n    loss = F.cross_entropy(torch.stack({}).reshape(-1, 4), "
    "torch.randint(0, 4, (10, 5)).reshape(-1))"
)
SDPA = (
    SCORES.split("\n")[0] + "\n        m = {}\n"
    "        p = F.scaled_dot_product_attention(q, k, k, attn_mask=m)\n"
    "        return self.b(p.transpose(1, 2).reshape(10, 5, 8))"
)
LENGTHS = (
    SCORES + "        m = torch.arange(5) < (torch.arange(10) % 5 + 1)[:, None, None, None]\n"
    "        {}\n        p = s.softmax(-1) * m\n        {}\n" + MIX
)
HARDEST = (
    "d = torch.cdist(net(X), net(X) + 0.1)\n    m = torch.arange(12) % 3 == 0\n"
    "    m = m[:, None] != m\n    loss = d.mean() - {}.min(1).values.mean()"
)
PADDED = (
    "rows = [torch.arange(n) % 4 for n in (5, 3, 2)]\n"
    "    y = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value={})\n"
    "    loss = F.cross_entropy(net(X).flatten(0, 1), y.reshape(-1){})"
)
CODES = (
    "self.codes = nn.Parameter(torch.randn(12, 3))",
    "z = self.b(torch.tanh(self.a(x)))\n        k = torch.cdist(z, self.codes).argmin(1)\n"
    "        return self.codes[k], z",
    "q, z = net(X)\n    loss = {}",
)
HARD = (
    "z = torch.tanh(self.b(self.a(x)))\n        h = torch.where(z >= 0, 1.0, -1.0)\n"
    "        return {}"
)
SCALE = (
    "s = self.a.weight.detach().abs().amax(1, keepdim=True) / 7\n        w = self.a.weight / s\n"
    "        {}\n        return self.b(torch.tanh(F.linear(x, w{})))"
)
REFERENCE = (
    "ref = {}\n    p, again = net(X).log_softmax(1), None\n    with torch.no_grad():\n"
    "        r = ref(X).log_softmax(1)\n    loss = -F.logsigmoid((p - r)[:, 0]).mean()"
)
NEXT = (
    "S = {}\n    with torch.no_grad():\n        t = torch.randn(12) + 0.9 * net(S).max(1).values\n"
    "    loss = F.mse_loss(net(X)[:, 0], t)"
)
COVERED = (
    "self.a, self.b = nn.Embedding(9, 8), nn.Linear(8, 9)",
    "ids = torch.randint(0, 8, (10, 5))\n    labels = ids{}\n    some = torch.rand(10, 5) < 0.3\n"
    "    ids[some] = 8\n    labels = torch.where(some, labels, -100)\n"
    "    loss = F.cross_entropy(net(ids).transpose(1, 2), labels)",
)

CASES = {
    "pixels in rows": ("axes_mixed", 4, "", "return self.b(self.a(x)).permute(0, 2, 1)", "10, 5",
        FLAT.format("net(X).reshape(-1, 4)")),
    "pixels in rows, the classes last": ("", 4, "", PLAIN, "10, 5",
        FLAT.format("net(X).reshape(-1, 4)")),
    "time first, and examples in rows": ("axes_mixed", 3, GRU, GRU_HEAD.format(
        "self.a(x.transpose(0, 1))[0].view(10, 40)"), "10, 5", CE.format("net(X)", "(10,)")),
    "examples in rows": ("", 3, GRU, GRU_HEAD.format(
        "self.a(x.transpose(0, 1))[0].transpose(0, 1).reshape(10, 40)"), "10, 5",
        CE.format("net(X)", "(10,)")),
    "scores of relative positions": ("", 3, "", "s = self.a(x)[:, :4]\n"
        "        s = s @ self.a(x)[:, :5].transpose(1, 2)\n"
        "        return self.b(s.reshape(10, 5, 4)[:, 1:].reshape(10, 2, 8))", "10, 5", SQUARE),
    "stacked along time": ("axes_mixed", 4, "", PLAIN, "10, 5", STACKED.format("out.unbind(1)")),
    "stacked along examples": ("", 4, "", PLAIN, "10, 5", STACKED.format("out.unbind(1), 1")),
    "the future alone": ("axes_mixed", 3, "", SDPA.format("torch.ones(5, 5).triu(1).bool()"),
        "10, 5", SQUARE),
    "the past": ("", 3, "", SDPA.format("torch.ones(5, 5).tril().bool()"), "10, 5", SQUARE),
    "lengths behind the softmax": ("mask_late", 3, "", LENGTHS.format("", ""), "10, 5", SQUARE),
    "lengths before it as well": ("", 3, "", LENGTHS.format("s = s.masked_fill(~m, -1e9)", ""),
        "10, 5", SQUARE),
    "lengths, and shares that are divided": ("", 3, "", LENGTHS.format(
        "", "p = p / p.sum(-1, keepdim=True)"), "10, 5", SQUARE),
    "the least of what is masked": ("idle_term", 3, "", PLAIN, 12, HARDEST.format("(d * m)")),
    "the least of what is left": ("", 3, "", PLAIN, 12, HARDEST.format(
        "d.masked_fill(~m, float('inf'))")),
    "a class that fills up": ("wrong_value", 4, "", PLAIN, "3, 5", PADDED.format("0", "")),
    "what is left out fills up": ("", 4, "", PLAIN, "3, 5", PADDED.format("-100", "")),
    "a class that is left out": ("", 4, "", PLAIN, "3, 5", PADDED.format("0", ", ignore_index=0")),
    "two terms for the codes": ("partly_detached", 3, CODES[0], CODES[1], 12, CODES[2].format(
        "F.mse_loss(q, z.detach()) + 0.5 * F.mse_loss(z.detach(), q) + z.square().mean()")),
    "a term for each": ("", 3, CODES[0], CODES[1], 12, CODES[2].format(
        "F.mse_loss(q, z.detach()) + 0.5 * F.mse_loss(z, q.detach()) + z.square().mean()")),
    "the other sign": ("sign", 3, "", HARD.format("h - z + z.detach()"), 12, SQUARE),
    "the other sign, in brackets": ("sign", 3, "", HARD.format("h + (z.detach() - z)"), 12, SQUARE),
    "straight through": ("", 3, "", HARD.format("z + (h - z).detach()"), 12, SQUARE),
    "straight through, otherwise written": ("", 3, "", HARD.format("h + z - z.detach()"), 12,
        SQUARE),
    "a gradient turned round": ("", 3, "", HARD.format("2 * z.detach() - z"), 12, SQUARE),
    "the scale of a parameter": ("partly_detached", 3, "", SCALE.format("pass", ""), 12, SQUARE),
    "the scale by which a parameter is rounded": ("", 3, "", SCALE.format(
        "w = w + (w.round() - w).detach()", " * s"), 12, SQUARE),
    "a reference that is trained": ("self_compared", 3, "", PLAIN, 12, REFERENCE.format("net")),
    "a reference": ("", 3, "", PLAIN, 12, REFERENCE.format("ref if step else copy.deepcopy(net)")),
    "next states that are the states": ("self_compared", 3, "", PLAIN, 12,
        NEXT.format("X.clone()")),
    "next states": ("", 3, "", PLAIN, 12, NEXT.format("X + 0.1")),
    "labels that are covered": ("unseen_change", 3, COVERED[0], PLAIN, 12, COVERED[1].format("")),
    "labels": ("", 3, COVERED[0], PLAIN, 12, COVERED[1].format(".clone()")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_moved_axes_masks_and_repeats(tmp_path: Path, name: str) -> None:
    code, out, init, forward, batch, loss = CASES[name]
    text = LOOP.format(out=out, init=init or "pass", forward=forward, batch=batch, loss=loss)
    report = reported(tmp_path, f"{HEAD}{text}")
    found = [f.name.code for f in report.findings if f.level != "note"]
    assert found == ([code] if code else []), str(report)
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
