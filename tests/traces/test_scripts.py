"""Training scripts, recorded as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.engine import graph, watch
from chainrule.optim.optimizer import Optimizer
from chainrule.traces.scripts import record_script
from tests.traces.programs import check_file, check_numbers, messages

HEAD = """
import numpy as np, sys
import chainrule as cr
x = np.linspace(-1, 1, 6).reshape(3, 2)
w = cr.tensor(np.ones((2, 1)), requires_grad=True)
unused = cr.exp(w) * 3.0
"""
WITH_OPTIMIZER = (
    HEAD
    + """
optimizer = cr.optim.SGD([w], 0.1)
def train():
    for k in range(5):
        loss = cr.mean((x @ w - 1.0) ** 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with open(sys.argv[1], "a") as log:
            log.write("x")
train()
"""
)
BY_HAND = (
    HEAD
    + """
for k in range(5):
    loss = cr.mean((x @ w - 1.0) ** 2)
    w.grad = None
    loss.backward()
    w.data = w.data - 0.1 * w.grad.numpy()
"""
)
FUNCTIONAL = (
    HEAD
    + """
w = np.ones((2, 1))
for k in range(5):
    loss, g = cr.value_and_grad(lambda w: cr.mean((x @ w - 1.0) ** 2))(w)
    w = w - 0.1 * g.numpy()
"""
)
SCALAR = """
from chainrule import Value
w = Value(2.0)
for k in range(5):
    loss = (w * 3.0 - 1.0) ** 2
    loss.backward()
    w.data -= 0.01 * w.grad
    w.grad = 0
"""


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(text, "utf-8")
    return str(path)


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("text", [WITH_OPTIMIZER, BY_HAND, FUNCTIONAL, SCALAR])
def test_one_step_is_recorded(tmp_path: Path, text: str, step: int):
    log = tmp_path / "log"
    trace = record_script(script(tmp_path, text), [str(log)], step=step)
    check_numbers(trace)
    check_file(trace)
    assert len(trace.sweeps) == 1 and trace.name == "train.py"
    assert {"w", "loss"} <= {n.label for n in trace.nodes} or text is FUNCTIONAL
    assert not any("unused" in n.label for n in trace.nodes)
    assert (len(log.read_text("utf-8")) if log.exists() else 0) == (step - 1) * (
        text is WITH_OPTIMIZER
    )
    assert watch.watches == () and graph.around.get() is None
    assert Optimizer.step.__module__ == "chainrule.optim.optimizer"
    w = np.ones((2, 1))
    x = np.linspace(-1, 1, 6).reshape(3, 2)
    if text is not SCALAR:
        for _ in range(step):
            g = 2 / 3 * x.T @ (x @ w - 1)
            w = w - 0.1 * g
        inputs = [i for i, n in enumerate(trace.nodes) if n.kind in ("input", "parameter")]
        assert np.allclose(trace.gradient(inputs[-1]), g)  # type: ignore[arg-type]


def test_a_script_of_the_tests_and_its_slip():
    path = Path(__file__).parents[1] / "verify" / "scripts" / "own.py"
    right = record_script(path)
    wrong = record_script(path, ["--wrong"])
    assert right.nodes and len(right.sweeps) == 1
    marked = {
        wrong.nodes[m.node].op
        for _, m in messages(wrong)
        if m.certificate is not None and m.certificate.verdict == "differs"
    }
    assert marked == {"Softplus"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("print(1)", "runs no backward pass"),
        ("raise ValueError('so it is')", "raised ValueError: so it is"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("x = (", "cannot read the script"),
    ],
)
def test_errors_are_one_sentence(tmp_path: Path, text: str, said: str):
    with pytest.raises(cr.ConfigError, match=said) as caught:
        record_script(script(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_what_is_not_there(tmp_path: Path):
    with pytest.raises(cr.ConfigError, match="is not there"):
        record_script(tmp_path / "none.py")
    with pytest.raises(cr.ConfigError, match="before step 9"):
        record_script(script(tmp_path, BY_HAND), step=9)
