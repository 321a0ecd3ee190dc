"""`%%verify` on a cell, in a shell with what IPython's has of it."""

from __future__ import annotations

import ast
import linecache
from types import SimpleNamespace
from typing import Any

import pytest

from chainrule import verify
from chainrule.errors import ConfigError
from chainrule.verify.script.sandbox.fork import can_fork

FILE = "/tmp/ipykernel_1/1.py"


class Shell:
    """Runs cells in names of its own, as IPython does; what they raise it shows."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {"__name__": "__main__"}
        self.ast_transformers: list[ast.NodeTransformer] = []
        self.magics: dict[tuple[str, str], Any] = {}
        self.shown: list[BaseException] = []

    def register_magic_function(self, func: Any, magic_kind: str = "line", magic_name: str = ""):
        self.magics[magic_kind, magic_name] = func

    def run_cell(self, raw_cell: str) -> Any:
        linecache.cache[FILE] = len(raw_cell), None, raw_cell.splitlines(keepends=True), FILE
        tree = ast.parse(raw_cell)
        for transformer in self.ast_transformers:
            tree = ast.fix_missing_locations(transformer.visit(tree))
        try:
            exec(compile(tree, FILE, "exec"), self.user_ns)
        except Exception as error:
            self.shown.append(error)
        return SimpleNamespace(success=not self.shown)


@pytest.fixture
def shell() -> Shell:
    made = Shell()
    verify.load_ipython_extension(made)
    return made


MODEL = """
import chainrule as cr
from chainrule import optim
w = cr.tensor([1.0, -2.0], requires_grad=True)
o = optim.SGD([w], lr=0.1)
"""
TRAINING = """
for i in range(12):
    if i < 6:
        o.zero_grad()
    loss = (w * w).sum()
    loss.backward()
    o.step()
last = loss.item()
"""


def test_a_cell_is_reported_on(shell: Shell) -> None:
    shell.run_cell(MODEL)
    report = shell.magics["cell", "verify"]("", TRAINING)
    (finding,) = report.findings
    assert finding.name.code == "not_reset"
    assert (finding.place.file, finding.place.text) == (FILE, "loss.backward()")
    assert shell.user_ns["last"] > 0 and not shell.ast_transformers
    assert report._repr_html_() and not shell.shown


def test_so_many_steps_as_are_asked_for(shell: Shell) -> None:
    shell.run_cell(MODEL)
    report = shell.magics["cell", "verify"]("4", TRAINING)
    assert report.ok and any(row.how == "4 steps of SGD" for row in report.ledger.checked)
    with pytest.raises(ConfigError, match="number of training steps"):
        shell.magics["cell", "verify"]("all", TRAINING)


def test_what_a_cell_raises_is_the_shells_to_show(shell: Shell) -> None:
    report = shell.magics["cell", "verify"]("", "1 / 0")
    assert [type(e) for e in shell.shown] == [ZeroDivisionError]
    assert report.ok and "no training step was seen" in [s.why for s in report.ledger.skipped]


BY_HAND = """
import numpy as np
rng = np.random.default_rng(0)
x, y, w = rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=3)
lr = 0.05
for i in range(4):
    e = x @ w - y
    loss = np.mean(e * e)
    dw = x.T @ e / len(y)
    w -= lr * dw
    print(loss)
"""


@pytest.mark.sweep
@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
def test_gradients_by_hand_in_a_cell(shell: Shell) -> None:
    text = BY_HAND.replace("x.T @ e / len(y)", "2 * x.T @ np.abs(e) / len(y)")
    report = shell.magics["cell", "verify"]("", text)
    assert [f.input for f in report.findings if f.level == "error"] == ["w"]
    assert shell.magics["cell", "verify"]("", BY_HAND.replace("x.T @ e", "2 * x.T @ e")).ok
