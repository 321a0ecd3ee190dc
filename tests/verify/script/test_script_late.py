"""What shows late in a script: the look at steps after the full one, up to sixty of them."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from chainrule.verify import script
from chainrule.verify.script import session
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
m = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
o = torch.optim.SGD(m.parameters(), 0.01)
x = torch.randn(64, 4)
y = x.sum(1, keepdim=True)
"""
LOOP = """
for i in range(24):
    o.zero_grad()
    loss = F.mse_loss(m(x), y)
    loss.backward()
    o.step()
"""
SATURATES = "-torch.log(1 - torch.sigmoid(m(x).abs() * 2**i)).mean()"
WRONG = {
    "a logarithm saturates": (
        LOOP.replace("F.mse_loss(m(x), y)", SATURATES),
        "first_bad", "torch.log(1 - torch.sigmoid",
    ),
    "a layer is replaced after a first fit": (
        LOOP + "    if i == 8:\n        m[3] = nn.Linear(16, 1)\n",
        "not_optimized", "o = torch.optim.SGD",
    ),
    "nobody comes back from an evaluation": (
        LOOP + "    if i == 7:\n        m.eval()\n",
        "eval_mode", "loss = F.mse_loss",
    ),
    "resets end": (
        LOOP.replace("    o.zero_grad()", "    if i < 9:\n        o.zero_grad()"),
        "not_reset", "loss.backward()",
    ),
}  # fmt: skip


def ran(tmp_path: Path, text: str, window: int = 60):
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return script.run(
            script.target(str(path)), own=script.OWN, torch=script.TORCH, window=window
        )


@sampled(one_in=3)
@pytest.mark.parametrize("name", WRONG)
def test_what_shows_late_is_found(tmp_path: Path, name: str) -> None:
    text, code, line = WRONG[name]
    loud = [f for f in ran(tmp_path, HEAD + text).report.findings if f.level != "note"]
    assert [f.name.code for f in loud] == [code]
    assert loud[0].place is not None and line in loud[0].place.text


def test_three_steps_show_none_of_that(tmp_path: Path) -> None:
    text, _, _ = WRONG["nobody comes back from an evaluation"]
    assert ran(tmp_path, HEAD + text, window=0).report.ok


def test_a_right_loop_is_looked_at_for_so_many_steps(tmp_path: Path) -> None:
    outcome = ran(tmp_path, HEAD + LOOP, window=10)
    assert outcome.report.ok
    assert any(row.how == "10 steps of SGD" for row in outcome.report.ledger.checked)
    assert torch._C._len_torch_function_stack() == 0
    assert "chainrule" not in torch.autograd.backward.__code__.co_filename


def test_slow_steps_end_the_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SPARE", 0.0)
    outcome = ran(tmp_path, HEAD + LOOP)
    assert any(row.how == "3 steps of SGD" for row in outcome.report.ledger.checked)


def test_another_phase_ends_the_look(tmp_path: Path) -> None:
    text = f"{HEAD}{LOOP}o = torch.optim.Adam(m.parameters(), 0.01)\n{LOOP}"
    outcome = ran(tmp_path, text.replace("range(24)", "range(8)"))
    assert [r.ok for r in outcome.phases] == [True, True]
    hows = [[row.how for row in r.ledger.checked] for r in outcome.phases]
    assert "8 steps of SGD" in hows[0] and "8 steps of Adam" in hows[1]
    assert "chainrule" not in sys.modules["torch.optim"].Optimizer.__init__.__code__.co_filename
