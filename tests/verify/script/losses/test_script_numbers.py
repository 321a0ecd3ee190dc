"""Values that leave PyTorch and come back as constants: found by letting the script go on in copies
of its process, whatever computes with them in between; what is meant to be a constant may be one.
"""

from __future__ import annotations

import os
import threading

import pytest

from chainrule.verify.script.sandbox.fork import (
    HERE,
    LostError,
    begin,
    branch_off,
    can_fork,
    in_copy,
    is_branch,
    reason_not_to_branch,
    send,
)
from chainrule.verify.script.sandbox.quiet import confine
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    sampled_file(one_in=12),
]

START = """
import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
X, Y, C = torch.randn(32, 6), torch.randn(32, 1), torch.randint(0, 3, (32,))
a, b, c = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 1)
cell, head = nn.GRUCell(6, 8), nn.Linear(8, 3)
rng = np.random.default_rng(0)
def number(x):
    return x.detach().cpu().numpy()
opt = torch.optim.Adam([p for m in (a, b, c, cell, head) for p in m.parameters()], lr=1e-2)
for _ in range(5):
"""
END = """
    loss.backward()
    opt.step()
    opt.zero_grad()
"""
ATTENTION = """
    q, k = a(X), b(X)
    s = number(q @ k.T)
    s = np.exp(s - s.max(1, keepdims=True))
    loss = F.mse_loss(c(torch.from_numpy(s / s.sum(1, keepdims=True)) @ torch.tanh(cell(X))), Y)
"""
GATE = """
    scores = a(X).mean(1)
    w = torch.softmax(torch.tensor([float(v) for v in scores]), 0)
    loss = (w * (c(b(X)) - Y).square().squeeze(1)).sum()
"""
CENTRED = """
    h = a(X)
    middle = h.mean(0).tolist()
    loss = F.mse_loss(c(torch.relu(h - torch.tensor(middle))), Y)
"""
NORM = """
    size = 0.0
    for p in c.parameters():
        size += p.square().sum().item()
    loss = F.mse_loss(c(torch.tanh(a(X))), Y) + 0.01 * math.sqrt(size)
"""
WRONG = {
    "attention": (ATTENTION, "detached", "return x.detach().cpu().numpy()"),
    "gate": (GATE, "detached", "w = torch.softmax"),
    "centred": (CENTRED, "partly_detached", "middle = h.mean(0).tolist()"),
    "norm": (NORM, "partly_detached", "size += p.square()"),
}

ADVANTAGE = """
    loss = 0.0
    for x in X[:6]:
        h = torch.tanh(a(x))
        likely, value = F.log_softmax(head(h), 0), c(h).squeeze()
        act = int(torch.multinomial(likely.exp(), 1))
        gain = 0.3 * act + rng.normal()
        loss = loss - likely[act] * (gain - value.item()) + (value - gain) ** 2
"""
TARGET = """
    aim = [float(r) + 0.9 * head(torch.tanh(a(x))).max().item() for x, r in zip(X[1:], Y)]
    q = head(torch.tanh(a(X[:-1]))).gather(1, C[:-1, None])
    loss = F.mse_loss(q.squeeze(), torch.tensor(aim))
"""
WORLD = """
    s, h, loss = rng.normal(size=6), torch.zeros(1, 8), 0.0
    for _ in range(4):
        h = cell(torch.tensor(s, dtype=torch.float32)[None], h)
        p = torch.softmax(head(h)[0], 0)
        chances = number(p).astype(float)
        act = rng.choice(3, p=chances / chances.sum())
        s = 0.9 * s + 0.1 * act
        loss = loss + torch.log(p[act]) * float((s ** 2).sum())
"""
CHUNKS = """
    h = torch.zeros(1, 8)
    for t in range(3):
        for x in X[4 * t : 4 * t + 4]:
            h = cell(x[None], h)
        loss = F.mse_loss(c(h), Y[t][None])
        if t < 2:
            loss.backward()
        h = torch.tensor(number(h)) if t < 2 else h
"""
BALANCE = """
    h = torch.tanh(a(X))
    one, two = F.mse_loss(c(h), Y), F.cross_entropy(head(h), C)
    loss = one + one.item() / two.item() * two
"""
SHOWN = """
    out = c(torch.tanh(a(X)))
    shown = number(out).mean() + F.mse_loss(out, Y).item()
    loss = F.mse_loss(out, Y + float(f"{shown > 1e9:.3f}"))
"""
RIGHT = {
    "advantage": ADVANTAGE, "target": TARGET, "world": WORLD, "chunks": CHUNKS,
    "balance": BALANCE, "shown": SHOWN,
}  # fmt: skip


@pytest.mark.parametrize(("text", "code", "line"), WRONG.values(), ids=WRONG)
def test_a_path_through_numbers_is_found_where_they_leave(tmp_path, text, code, line):
    found, _, _ = observed(tmp_path, START + text + END)
    assert [f.name.code for f in found if f.place.text.startswith(line)] == [code]
    assert len(found) == 1


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_numbers_that_are_meant_are_no_mistake(tmp_path, text):
    found, code, skipped = observed(tmp_path, START + text + END)
    assert (found, code, skipped) == ([], 0, [])


def test_numbers_are_followed_where_a_correction_is_tried(tmp_path):
    """Otherwise each correction would seem to help."""

    def again() -> list[str]:
        confine()
        return [f.name.code for f in found()]

    path = tmp_path / "train.py"
    path.write_text(START + GATE + END, encoding="utf-8")

    def found():
        from chainrule.verify import script

        return script.run(script.target(str(path)), torch=script.LOOP[1]).report.findings

    assert "detached" in in_copy(again)


READS = """
import sys
lines = open(sys.argv[0].replace("train.py", "data.txt"))
gate, body = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
opt = torch.optim.SGD([*gate.parameters(), *body.parameters()], lr=0.1)
seen = []
for line in iter(lines.readline, ""):
    seen.append(line)
    x = torch.tensor([float(n) for n in line.split()])
    loss = (body(x) * math.exp(gate(x).item())).square().sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
assert seen == [f"{n} {n + 1}\\n" for n in range(6)], seen
"""


def test_the_script_reads_on_where_it_was(tmp_path):
    text = "".join([f"{n} {n + 1}\n" for n in range(6)])
    (tmp_path / "data.txt").write_text(text, encoding="utf-8")
    found, code, _ = observed(tmp_path, "import math\nimport torch\ntorch.manual_seed(0)\n" + READS)
    assert code == 0
    assert "detached" in [f.name.code for f in found]


def test_a_copy_sends_what_it_saw_and_writes_nothing(tmp_path):
    sent = branch_off(30.0)
    if sent is HERE:
        try:
            (tmp_path / "new").write_text("x", encoding="utf-8")
        except PermissionError:
            send((is_branch(), os.getpid()))
        send(None)
    assert sent is not None
    assert sent[0] and sent[1] != os.getpid()
    assert not is_branch() and not list(tmp_path.iterdir())


def test_a_copy_that_sees_nothing_is_given_up():
    with pytest.raises(LostError):
        if branch_off(0.2) is HERE:
            threading.Event().wait()


def test_a_script_with_threads_or_processes_is_not_copied():
    begin()
    assert not reason_not_to_branch()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert "threads" in reason_not_to_branch()
        begin()
        assert not reason_not_to_branch(), "a thread from before the script"
    finally:
        stop.set()
        thread.join()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        os._exit(0)
    try:
        assert "processes" in reason_not_to_branch()
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
    assert not reason_not_to_branch()
