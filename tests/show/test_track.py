"""`track`: what a loop shows, in a terminal, in a notebook and in a pipe; what it keeps."""

from __future__ import annotations

import io
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import chainrule as cr
from chainrule.errors import ChainruleError
from chainrule.progress import display


def losses(steps: int, title: str = "") -> cr.Track[int]:
    loop = cr.track(range(steps), title)
    for i in loop:
        loop.show(loss=cr.tensor(2.0) / (i + 1))
    return loop


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is written to a terminal of 80 columns."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, _environ={})
    monkeypatch.setattr(display, "display", lambda: display.Bars(console))
    return out


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The states of each output of a notebook's cell."""
    outputs: list[list[str]] = []

    def show(data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        states = [data["text/plain"]]
        outputs.append(states)
        return SimpleNamespace(update=lambda d, raw: states.append(d["text/plain"]))

    shell = SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=show))
    return outputs


def test_in_a_pipe_nothing_is_shown(capfd: pytest.CaptureFixture[str]):
    loop = losses(4)
    assert loop.history == {"loss": [(0, 2.0), (1, 1.0), (2, pytest.approx(2 / 3)), (3, 0.5)]}
    assert capfd.readouterr() == ("", "")


def test_the_same_items_come(terminal: io.StringIO):
    items = ["a", "b", "c"]
    assert list(cr.track(items)) == items and list(cr.track(iter(items), total=3)) == items
    assert len(cr.track(items)) == 3 and list(cr.track([])) == []
    with pytest.raises(TypeError, match="total"):
        len(cr.track(iter(items)))


def test_a_terminal_has_a_bar(terminal: io.StringIO):
    losses(7, "warm up")
    last = terminal.getvalue().splitlines()[-2]
    assert "warm up" in last and "7/7" in last and "loss 0.7" in last


def test_a_notebook_has_one_output_for_loops_in_loops(notebook: list[list[str]]):
    for _ in cr.track(range(3), "outer"):
        for _ in cr.track(range(2), "inner"):
            pass
    (states,) = notebook
    assert any(s.splitlines()[1].startswith("inner") for s in states if "\n" in s)
    assert states[-1].startswith("outer  3/3") and "\n" not in states[-1]
    losses(2)
    assert len(notebook) == 2


@pytest.mark.parametrize("fixture", ["terminal", "notebook"])
def test_a_loop_that_is_left_ends_what_it_shows(request: pytest.FixtureRequest, fixture: str):
    request.getfixturevalue(fixture)
    for i in cr.track(range(5)):
        if i == 2:
            break
    with pytest.raises(ZeroDivisionError):
        for i in cr.track(range(5)):
            1 // i
    losses(2)  # a bar that was left behind would be in the way
    assert display.STAGE._loops == 0


def test_a_loop_runs_once_more():
    loop = losses(3)
    for i in loop:
        loop.show(other=i)
    assert loop.step == 3 and list(loop.history) == ["other"]


def test_the_time_after_the_last_step_does_not_count():
    loop = losses(3)
    before = loop.rate, repr(loop)
    time.sleep(0.05)
    assert (loop.rate, repr(loop)) == before


def test_a_writer_gets_each_number():
    calls: list[tuple[str, float, int]] = []
    writer = SimpleNamespace(add_scalar=lambda *call: calls.append(call))
    loop = cr.track(range(2), writer=writer, first=10)
    for i in loop:
        loop.show(loss=i + 0.5, rate=0.1)
    assert calls == [("loss", 0.5, 10), ("rate", 0.1, 10), ("loss", 1.5, 11), ("rate", 0.1, 11)]


def test_tensorboard_reads_what_was_logged(tmp_path: Path):
    summary = pytest.importorskip("tensorboard.summary")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    writer = summary.Writer(str(tmp_path))
    loop = cr.track(range(3), writer=writer)
    for i in loop:
        loop.show(loss=i * i)
    writer.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    found = [(e.step, e.tensor_proto.float_val[0]) for e in events.Tensors("loss")]
    assert found == [(0, 0.0), (1, 1.0), (2, 4.0)]


def test_a_curve_is_a_picture():
    loop = losses(30, "names")
    ET.fromstring(loop.curve())
    assert "names: loss" in loop.curve() and "nats" not in loop.curve()
    assert set(loop._repr_mimebundle_()) == {"text/plain", "image/svg+xml"}
    assert set(cr.track([])._repr_mimebundle_()) == {"text/plain"}


def _in_the_loop(act: Callable[[Any], Any]) -> Callable[[], Any]:
    def run() -> None:
        loop = cr.track([1])
        for _ in loop:
            act(loop)

    return run


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: cr.track(3), r"track: steps must be several values, not int 3"),
        (lambda: cr.track([1], writer=3), r"add_scalar\(name, number, step\).*int 3 has none"),
        (lambda: cr.track([1]).show(loss=1), r"call it inside of the loop"),
        (lambda: losses(2).curve("x"), r"'x' was not shown; there are loss"),
        (lambda: cr.track([1]).curve(), r"call show\(loss=loss\)"),
        (_in_the_loop(lambda t: t.show(x=cr.zeros((2,)))), r"x must be a number.*float32 \(2,\)"),
        (_in_the_loop(lambda t: t.show(x="a")), r"x must be a number.*str 'a'"),
    ],
)
def test_bad_input_is_answered(act: Callable[[], Any], says: str):
    with pytest.raises(ChainruleError, match=says):
        act()


def test_numbers_that_are_not_finite_have_no_curve():
    loop = cr.track([1.0, float("nan")])
    for x in loop:
        loop.show(loss=x)
    with pytest.raises(ChainruleError, match="1 of loss are not finite"):
        loop.curve()
