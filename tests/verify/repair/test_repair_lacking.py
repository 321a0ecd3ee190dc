"""Terms that a backward in a loop lacks: looked up by the value that a turn lacks, the first one in
which it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import verify

GRU = """
import numpy as np

def sigmoid(a):
    return 1 / (1 + np.exp(-a))

def forward(Wz, Uz, Wn, Un, x):
    h, kept = np.zeros((x.shape[0], Uz.shape[0])), []
    for t in range(x.shape[1]):
        z = sigmoid(x[:, t] @ Wz + h @ Uz)
        n = np.tanh(x[:, t] @ Wn + h @ Un)
        h_new = (1 - z) * h + z * n
        kept.append((x[:, t], h, z, n))
        h = h_new
    return h, kept

def loss_and_grads(Wz, Uz, Wn, Un, x):
    h, kept = forward(Wz, Uz, Wn, Un, x)
    loss = 0.5 * np.sum(h ** 2)
    gWz, gUz, gWn, gUn = (np.zeros_like(w) for w in (Wz, Uz, Wn, Un))
    dh = h
    for xt, before, z, n in reversed(kept):
        dz = dh * (n - before) * z * (1 - z)
        dn = dh * z * (1 - n ** 2)
        gWz += xt.T @ dz
        gUz += before.T @ dz
        gWn += xt.T @ dn
        gUn += before.T @ dn
        dh = dz @ Uz.T + dn @ Un.T + dh * (1 - z)
    return loss, (gWz, gUz, gWn, gUn)
"""
RESIDUAL = """
import numpy as np

def steps(W, x):
    h, kept = x, []
    for _ in range(4):
        u = np.tanh(h @ W)
        kept.append((h, u))
        h = h + u * 0.5
    return h, kept

def loss_and_grads(W, x):
    h, kept = steps(W, x)
    gW, dh = np.zeros_like(W), np.ones_like(h)
    for before, u in reversed(kept):
        du = dh * 0.5 * (1 - u ** 2)
        gW += before.T @ du
        dh = dh + du @ W.T
    return h.sum(), (gW, dh)
"""
MEMORY = """
import numpy as np

def run(Wf, Wg, x):
    s, kept = np.zeros((x.shape[0], Wf.shape[0])), []
    for t in range(x.shape[1]):
        k = 1 / (1 + np.exp(-x[:, t] @ Wf))
        g = np.tanh(x[:, t] @ Wg)
        old = s
        s = k * old + (1 - k) * g
        u = np.tanh(s)
        kept.append((x[:, t], k, g, old, u))
    return u, kept

def loss_and_grads(Wf, Wg, x):
    u, kept = run(Wf, Wg, x)
    gWf, gWg = np.zeros_like(Wf), np.zeros_like(Wg)
    du, ds_next = u.copy(), np.zeros_like(u)
    for xt, k, g, old, u in reversed(kept):
        ds = du * (1 - u ** 2) + ds_next
        dk = ds * (old - g) * k * (1 - k)
        dg = ds * (1 - k) * (1 - g ** 2)
        gWf += xt.T @ dk
        gWg += xt.T @ dg
        ds_next, du = ds * k, np.zeros_like(u)
    return 0.5 * np.sum(kept[-1][-1] ** 2), (gWf, gWg)
"""
LACKING = {
    "memory: what comes from the turn after": (MEMORY, " + ds_next\n"),
    "gru: the path beside the gate": (GRU, " + dh * (1 - z)\n"),
    "residual: the path beside": (RESIDUAL, "dh + du"),
}


def arguments(text: str) -> list[Any]:
    rng = np.random.default_rng(3)
    shapes = [(4, 4), (5, 4)] if text is RESIDUAL else [(4, 4), (4, 4), (5, 6, 4)]
    shapes = [(3, 4), (4, 4), (3, 4), (4, 4), (5, 6, 3)] if text is GRU else shapes
    return [0.6 * rng.normal(size=s) for s in shapes]


def function(text: str, tmp_path: Path) -> Any:
    path = tmp_path / "by_hand.py"
    path.write_text(text, "utf-8")
    space: dict[str, Any] = {"__name__": "by_hand"}
    exec(compile(text, str(path), "exec"), space)
    return space["loss_and_grads"]


@pytest.mark.parametrize("name", LACKING)
def test_a_term_that_a_loop_lacks_is_written(name: str, tmp_path: Path) -> None:
    text, term = LACKING[name]
    wrong = text.replace(term, "du" if "du" in term else "\n")
    assert text.count(term) == 1
    [written] = [line.strip() for line in text.splitlines() if term.strip() in line]
    assert verify.pair(function(text, tmp_path), *arguments(text)).ok
    finding = verify.pair(function(wrong, tmp_path), *arguments(text)).findings[0]
    assert finding.name.code in ("missing_term", "overwritten"), str(finding)  # `dh +=` is it, too
    changed = finding.correction
    assert changed is not None and changed.after is not None
    assert changed.after.strip() in (written, written.replace("dh = dh + ", "dh += "))
