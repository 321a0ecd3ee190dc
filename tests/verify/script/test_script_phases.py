"""Scripts that train one thing after another: each is looked at, and told of apart and together."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from chainrule.cli.main import main
from chainrule.verify import script
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

TWO = """
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(32, 6)
y = x.sum(1, keepdim=True)


def train(model, lr):
    optimizer = torch.optim.SGD(model, lr=lr)
    for step in range(5):
        {reset}
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        print(f"{{loss.item():.6f}}")


net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
first = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(5):
    first.zero_grad()
    loss = (net(x) - y).square().mean()
    loss.backward()
    first.step()
{second}
"""
NOT_RESET = TWO.format(reset="pass", second="train(net.parameters(), 0.01)")
RESET = TWO.format(reset="optimizer.zero_grad()", second="train(net.parameters(), 0.01)")
SEARCH = TWO.format(
    reset="lr == 0.03 or optimizer.zero_grad()",
    second="for lr in (0.01, 0.02, 0.03):\n    train(net.parameters(), lr)",
)
HEAD = TWO.format(reset="optimizer.zero_grad()", second="train(net[2].parameters(), 0.01)")
ANOTHER = TWO.format(
    reset="optimizer.zero_grad()",
    second="del net, first, loss\n"
    "net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))\n"
    "train(net[2].parameters(), 0.01)",
)
UNUSED = TWO.format(
    reset="pass", second="later = torch.optim.SGD(net.parameters(), lr=0.1)\nprint('done')"
)
OWN = """
import chainrule as cr
from chainrule import optim
w = cr.tensor([1.0, -2.0], requires_grad=True)
for reset in (True,):
    o = optim.SGD([w], lr=0.01)
    for i in range(4):
        o.zero_grad()
        (w * w).sum().backward()
        o.step()
p = optim.SGD([w], lr=0.02)
for i in range(4):
    (w * w).sum().backward()
    p.step()
"""


def ran(tmp_path: Path, text: str):
    """The outcome, and what the script printed."""
    path, out = tmp_path / "train.py", io.StringIO()
    path.write_text(text, encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(path)), steps=3, own=script.OWN, torch=script.TORCH, loop=script.LOOP
        )
    return outcome, out.getvalue()


@pytest.mark.parametrize(("text", "at"), [(NOT_RESET, "    optimizer = "), (OWN, "p = optim")])
def test_a_mistake_of_the_second_phase_is_found_and_its_correction_tried(tmp_path, text, at):
    outcome, _ = ran(tmp_path, text)
    first, second = outcome.phases
    line = [n for n, row in enumerate(text.splitlines(), 1) if row.startswith(at)]
    assert first.ok and second.what == f"{tmp_path / 'train.py'} from line {line[0]} on"
    assert [f.name.code for f in second.findings] == ["not_reset"]
    assert [f.name.code for f in outcome.report.findings] == ["not_reset"]
    correction = second.findings[0].correction
    assert correction is not None and correction.rechecked


def test_a_new_body_in_the_place_of_the_old_one_was_not_trained(tmp_path):
    """Its parameters may well have the addresses of those that are gone."""
    outcome, _ = ran(tmp_path, ANOTHER)
    assert [f.name.code for f in outcome.phases[1].findings] == ["not_optimized"]


@pytest.mark.parametrize(("text", "phases"), [(RESET, 2), (SEARCH, 2), (HEAD, 2), (UNUSED, 1)])
def test_right_phases_are_right_and_each_line_is_one(tmp_path, text: str, phases: int):
    """A search over rates is looked at once; a head that is trained alone leaves its body as it
    was trained before."""
    outcome, printed = ran(tmp_path, text)
    assert len(outcome.phases) == phases
    assert outcome.code == 0 and outcome.report.ok
    alone = io.StringIO()
    with redirect_stdout(alone):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    assert printed == alone.getvalue()


def test_the_files_hold_all_phases(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(NOT_RESET, encoding="utf-8")
    assert main(["verify", "--json", str(tmp_path / "all.json"), str(path)]) == 1
    whole = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert whole["what"] == str(path)
    checked = [c["subject"] for c in whole["ledger"]["checked"]]
    assert len(checked) == 2 * len(set(checked))
    assert [f["names"][0]["code"] for f in whole["findings"]] == ["not_reset"]


def test_one_document_on_all_phases(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(NOT_RESET, encoding="utf-8")
    command = [sys.executable, "-m", "chainrule", "verify", "--json", "-", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    whole = json.loads(done.stdout)
    assert [f["names"][0]["code"] for f in whole["findings"]] == ["not_reset"]
