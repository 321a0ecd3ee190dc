"""Corrections of a training loop are tried by running the changed script, which leaves no trace."""

from __future__ import annotations

import io
import os
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch

from chainrule.verify import script
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import TRAINING, Ledger
from chainrule.verify.place import Place
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.script.sandbox.quiet import confine
from chainrule.verify.script.trial_runs import CHEAP, Again, apply_correction
from tests.sampling import sampled_file

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=12),
]

START = """
import torch, torch.nn.functional as F
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
o = torch.optim.SGD({parameters}, lr=0.01)
def loss():
    x = torch.randn(8, 4)
    return F.mse_loss(m(x), x.sum(1, keepdim=True))
"""
NEVER = """
for i in range(4):
    loss().backward()
    o.step()
"""
MISPLACED = """
for i in range(4):
    loss().backward()
    o.zero_grad()
    o.step()
"""
EACH = """
for i in range(16):
    o.zero_grad()
    (loss() / 4).backward()
    if i % 4 == 3:
        o.step()
"""
UNDIVIDED = """
for i in range(16):
    loss().backward()
    if i % 4 == 3:
        o.step()
        o.zero_grad()
"""
OTHER = """
for i in range(16):
    mean = loss() / 16
    mean.backward()
    if i % 4 == 3:
        o.step()
        o.zero_grad()
"""
RIGHT = """
for i in range(4):
    o.zero_grad()
    loss().backward()
    o.step()
"""
KEPT = """
losses = []
for i in range(6):
    o.zero_grad()
    mean = loss()
    losses.append(mean)
    mean.backward()
    o.step()
"""
TWO = """
n = torch.nn.Linear(2, 1)
q = torch.optim.SGD(n.parameters(), lr=0.01)
for i in range(4):
    loss().backward()
    o.step()
    n(torch.randn(4, 2)).square().mean().backward()
    q.step()
"""
BY_HAND = """
import torch
torch.manual_seed(0)
params = [torch.randn(3, 2, requires_grad=True), torch.zeros(2, requires_grad=True)]
for i in range(5):
    (torch.randn(4, 3) @ params[0] + params[1]).square().mean().backward()
    with torch.no_grad():
        for p in params:
            p -= 0.1 * p.grad
"""
OURS = """
import chainrule as cr
w = cr.tensor([1.0, -2.0], requires_grad=True)
o = cr.optim.SGD([w], lr=0.1)
for i in range(4):
    (w * w).sum().backward()
    o.step()
"""


TURNS = """
import torch
from torch import nn
from torch.nn.functional import softplus
torch.manual_seed(0)
maker, judge = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
a = torch.optim.Adam(maker.parameters(), lr=1e-3)
b = torch.optim.Adam(judge.parameters(), lr=1e-3)
for _ in range(6):
    made = maker(torch.randn(16, 3))
    told = softplus(judge(made.detach())) + softplus(-judge(torch.randn(16, 2)))
    told.mean().backward()
    b.step()
    a.zero_grad()
    softplus(-judge(made)).mean().backward()
    a.step()
"""


def observed(tmp_path: Path, text: str, parameters: str = "m.parameters()", steps: int = 4):
    """Findings but notes of a script, its exit code, and what its ledger skipped."""
    path = tmp_path / "train.py"
    path.write_text(text.replace("{parameters}", parameters), encoding="utf-8")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(path)), steps=steps, own=script.OWN, torch=script.TORCH,
            loop=script.LOOP,
        )  # fmt: skip
    found = [f for f in outcome.report.findings if f.level != "note"]
    return found, outcome.code, [f"{s.subject}: {s.why}" for s in outcome.report.ledger.skipped]


def corrected(tmp_path: Path, text: str, code: str, after: str) -> None:
    """A script has one finding but notes, whose correction was tried and is right."""
    (found,), _, _ = observed(tmp_path, text)
    assert found.name.code == code
    assert found.correction is not None and found.correction.rechecked
    assert after in found.correction.after


@pytest.mark.parametrize(
    ("text", "parameters", "code", "after"),
    [
        (START + NEVER, "m.parameters()", "not_reset", "    o.zero_grad()"),
        (START + MISPLACED, "m.parameters()", "reset_misplaced", "    o.zero_grad()"),
        (START + EACH, "m.parameters()", "reset_misplaced", "        o.zero_grad()"),
        (START + UNDIVIDED, "m.parameters()", "accumulation", "(loss() / 4).backward()"),
        (START + OTHER, "m.parameters()", "accumulation", "mean = loss() / 4"),
        (START + RIGHT, "m[2].parameters()", "not_optimized", "SGD(m.parameters(), lr=0.01)"),
        (START + KEPT, "m.parameters()", "graph_kept", "losses.append(mean.detach())"),
        (BY_HAND, "", "not_reset", "for p in params: p.grad = None"),
        (OURS, "", "not_reset", "    o.zero_grad()"),
        (TURNS, "", "not_reset", "    b.zero_grad()\n    told.mean().backward()"),
    ],
)
def test_the_changed_script_is_run_and_the_finding_gone(tmp_path, text, parameters, code, after):
    found, exit_code, _ = observed(tmp_path, text, parameters)
    assert [f.name.code for f in found] == [code]
    correction = found[0].correction
    assert correction is not None
    assert after in correction.after
    assert correction.rechecked
    assert exit_code == 0


def test_a_mistake_in_a_module_of_the_users_is_changed_there(tmp_path, monkeypatch):
    (tmp_path / "loop_of_a_user.py").write_text(
        "def train(o, loss):\n    for i in range(4):\n"
        "        loss().backward()\n        o.step()\n",
        encoding="utf-8",
    )
    found, _, _ = observed(tmp_path, START + "from loop_of_a_user import train\ntrain(o, loss)\n")
    assert [(f.name.code, f.correction.rechecked) for f in found] == [("not_reset", True)]
    assert found[0].correction.place.file.endswith("loop_of_a_user.py")


def test_two_mistakes_are_tried_one_by_one(tmp_path):
    found, _, _ = observed(tmp_path, START + TWO)
    assert [(f.name.code, f.correction.rechecked) for f in found] == [("not_reset", True)] * 2
    assert [f.correction.after.split()[-1] for f in found] == ["o.zero_grad()", "q.zero_grad()"]


def test_what_would_leave_a_trace_is_not_run_twice(tmp_path):
    log = tmp_path / "log.txt"
    text = f"log = open({str(log)!r}, 'w')\nlog.write('begun')\n" + START + NEVER
    found, code, skipped = observed(tmp_path, text + "log.write(' done')\nlog.close()\n")
    assert [(f.name.code, f.correction.rechecked) for f in found] == [("not_reset", False)]
    assert any("it would write to" in why and "log.txt" in why for why in skipped)
    assert log.read_text(encoding="utf-8") == "begun done"
    assert code == 0


def test_a_script_that_fails_is_not_run_again(tmp_path):
    mark = "import builtins\nbuiltins.runs = getattr(builtins, 'runs', 0) + 1\n"
    found, code, skipped = observed(tmp_path, mark + START + NEVER + "1 / 0\n", steps=9)
    assert code == 1
    assert [(f.name.code, f.correction.rechecked) for f in found] == [("not_reset", False)]
    assert not any("correction" in why for why in skipped)


def finding(path: Path, before: str, after: str) -> Finding:
    change = Correction("do so", before, after, Place(str(path), 1))
    return Finding("error", "loop", TRAINING, "", (Name("not_reset", "x"),), correction=change)


def test_a_correction_that_does_not_help_is_not_said_to(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("a = 1\n", encoding="utf-8")
    target = script.target(str(path))
    found = [finding(path, "a = 1", "a = 2")]
    for answer, helps in [
        ((0, Counter()), True),
        ((0, Counter(["not_reset"])), False),
        ((0, Counter(["accumulation"])), False),
        ((1, Counter()), False),
    ]:
        (tried,) = Again(target, lambda _, answer=answer: answer).tried(found, Ledger(), 20.0)
        assert tried.correction is not None
        assert tried.correction.rechecked == helps


def test_what_takes_long_is_not_run_again(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("a = 1\n", encoding="utf-8")
    ledger, found = Ledger(), [finding(path, "a = 1", "a = 2")]
    again = Again(script.target(str(path)), lambda _: (0, Counter()))
    assert again.tried(found, ledger, CHEAP + 1) == found
    assert "would take that again" in ledger.skipped[0].why


def test_lines_that_are_others_by_now_are_not_changed(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("a = 1\nb = 2\n", encoding="utf-8")
    change = finding(path, "a = 1", "a = 1\na = 2").correction
    assert change is not None
    assert apply_correction(change) == "a = 1\na = 2\nb = 2\n"
    path.write_text("\na = 1\nb = 2\n", encoding="utf-8")
    with pytest.raises(LookupError, match=r"train\.py:1"):
        apply_correction(change)


def test_a_confined_process_reads_and_does_nothing_else(tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("kept", encoding="utf-8")
    asked = {
        "write": lambda: kept.open("w", encoding="utf-8"),
        "append": lambda: kept.open("a", encoding="utf-8"),
        "remove": kept.unlink,
        "rename": lambda: kept.rename(tmp_path / "other"),
        "folder": lambda: (tmp_path / "new").mkdir(),
        "save": lambda: torch.save(torch.ones(2), tmp_path / "t.pt"),
        "system": lambda: os.system("true"),
        "fork": os.fork,
    }

    def run() -> tuple[list[str], str]:
        confine()
        done: list[str] = []
        for name, ask in asked.items():
            try:
                ask()
                done.append(name)
            except PermissionError:
                continue
        return done, kept.read_text(encoding="utf-8")

    assert in_copy(run) == ([], "kept")
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]
    with pytest.raises(LostError, match="it would write"):
        in_copy(lambda: (confine(), kept.open("w", encoding="utf-8")))


GAN = """
import torch
from torch import nn
from torch.nn.functional import softplus
torch.manual_seed(0)
gen = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
disc = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt_g = torch.optim.Adam(gen.parameters(), 1e-3)
opt_d = torch.optim.Adam(disc.parameters(), 1e-3)
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
def main():
    for i in range(8):
        opt_d.zero_grad()
        fake = gen(torch.randn(32, 8))
        d_loss = bce(disc(torch.randn(32, 4) + 1), ones) + bce(disc(fake.detach()), zeros)
        d_loss.backward()
        opt_d.step()
        opt_g.zero_grad()
        g_loss = bce(disc(fake), ones)
        g_loss.backward()
        opt_g.step()
        if i % 10 == 0:
            print(d_loss.item(), g_loss.item())
main()
"""


def test_a_graph_is_held_until_the_next_loss_takes_its_name_and_no_longer(tmp_path):
    found, exit_code, _ = observed(tmp_path, GAN, steps=3)
    assert found == []
    assert exit_code == 0


CHECKPOINTED = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        s = torch.sigmoid(a)
        ctx.save_for_backward(b, s)
        return s * b
    @staticmethod
    def backward(ctx, g):
        b, s = ctx.saved_tensors
        return g * b * s * (1 - s), g * s
wi, wo, drop = nn.Linear(4, 8), nn.Linear(4, 4), nn.Dropout(0.2)
o = torch.optim.SGD([*wi.parameters(), *wo.parameters()], 0.01)
def block(x):
    return x + drop(wo(Gate.apply(*wi(x).chunk(2, -1))))
for i in range(6):
    o.zero_grad()
    x = torch.randn(16, 4)
    checkpoint(block, x, use_reentrant=False).square().mean().backward()
    o.step()
"""


def test_what_a_function_saves_in_a_checkpoint_is_no_other_value(tmp_path):
    found, exit_code, _ = observed(tmp_path, CHECKPOINTED, steps=3)
    assert found == []
    assert exit_code == 0
