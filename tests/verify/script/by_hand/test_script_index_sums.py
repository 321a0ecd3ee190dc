"""Sums at indices in a script: an index that comes twice gets one of the two values."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.verify.script.by_hand.test_script_pairs import report_on

pytestmark = pytest.mark.skipif(not can_fork(), reason="processes are not copied here")

TRAIN = """
import torch
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
table, seen = np.zeros((6, 3)), np.zeros(6, int)
weight = torch.zeros(6, 3)
np.random.seed(0)
for k in range(5):
    idx = {INDEX}
    rows = np.random.normal(size=(len(idx), 3))
    {HERE}
    opt.zero_grad()
    (net(torch.ones(4, 3)) ** 2).mean().backward()
    opt.step()
"""
TWICE, ONCE = "np.array([0, 2, 2, 5])", "np.random.permutation(6)[:4]"
WRONG = {
    "numpy": ("table[idx] += rows", "np.add.at(table, idx, rows)"),
    "minus": ("table[idx] -= 0.1 * rows", "np.add.at(table, idx, -(0.1 * rows))"),
    "two axes": (
        "table[idx, idx % 3] += rows[:, 0]",
        "np.add.at(table, (idx, idx % 3), rows[:, 0])",
    ),
    "an expression": (
        "table[(idx + 1) % 6] += rows",
        "np.add.at(table, (idx + 1) % 6, rows)",
    ),
    "behind a slice": (
        "table.T[:, idx] += rows.T",
        "np.add.at(table.T, (slice(None), idx), rows.T)",
    ),
    "an expression of a tensor": (
        "i = torch.tensor(idx); weight[(i + 1) % 6] += torch.tensor(rows).float()",
        "weight.index_put_(((i + 1) % 6,), torch.tensor(rows).float(), accumulate=True)",
    ),
    "behind a slice of a tensor": (
        "i = torch.tensor(idx); weight.T[:, i] += torch.tensor(rows).float().T",
        "",
    ),
    "torch": (
        "i = torch.tensor(idx); weight[i] += torch.tensor(rows).float()",
        "weight.index_put_((i,), torch.tensor(rows).float(), accumulate=True)",
    ),
}
RIGHT = {
    "each once": (ONCE, "table[idx] += rows"),
    "one from the end": ("np.array([0, -1, 2, 1])", "table[idx] += rows"),
    "one for all": (TWICE, "step = 0.5; table[idx] += step"),
    "counts": (TWICE, "seen[idx] += rows.shape[0]"),
    "a mask": (TWICE, "mask = np.isin(np.arange(6), idx); table[mask] += rows[:3]"),
    "pairs that differ": (TWICE, "j = np.arange(4) % 3; table[idx, j] += rows[:, 0]"),
    "added at": (TWICE, "np.add.at(table, idx, rows)"),
    "a slice": (TWICE, "table[k:] += rows[0]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_values_that_are_lost(name: str, tmp_path: Path) -> None:
    code, after = WRONG[name]
    text = TRAIN.replace("{INDEX}", TWICE).replace("{HERE}", code.replace("; ", "\n    "))
    found = [f for f in report_on(tmp_path, text).findings if f.level != "note"]
    assert [f.name.code for f in found] == ["overwritten"]
    [finding] = found
    assert finding.place is not None and code.rpartition("; ")[2] in finding.place.text
    assert finding.correction is not None
    assert (finding.correction.after or "").strip() == after


@pytest.mark.parametrize("name", RIGHT)
def test_sums_that_lose_nothing(name: str, tmp_path: Path) -> None:
    index, code = RIGHT[name]
    text = TRAIN.replace("{INDEX}", index).replace("{HERE}", code.replace("; ", "\n    "))
    assert [f for f in report_on(tmp_path, text).findings if f.level != "note"] == []


def test_an_index_from_the_end_that_is_another_one(tmp_path: Path) -> None:
    text = TRAIN.replace("{INDEX}", "np.array([5, -1, 2, 1])")
    text = text.replace("{HERE}", "table[idx] += rows")
    [finding] = [f for f in report_on(tmp_path, text).findings if f.level != "note"]
    assert "1 of 4 values" in finding.name.because
