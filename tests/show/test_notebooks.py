"""What notebooks show: pictures, reports and tables, not source text; one line of progress."""

from __future__ import annotations

import gc
import io
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import chainrule as cr
from chainrule import explain, show, verify
from chainrule.cli import progress as module
from chainrule.page.html import SCOPE, STYLE, to_html


class Printer:
    """What IPython hands to `_repr_pretty_`."""

    def __init__(self) -> None:
        self.said = ""

    def text(self, words: str) -> None:
        self.said += words


def ipython_shows(x: Any) -> dict[str, str]:
    """By kind, what IPython's formatters make of an object: they look these methods up."""
    out: dict[str, str] = {}
    for kind, name in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        method = getattr(x, name, None)
        if method is not None:
            out[kind] = method()
    printer = Printer()
    for cls in type(x).__mro__:  # as IPython.lib.pretty: a class's own `__repr__` goes first
        if "_repr_pretty_" in vars(cls):
            x._repr_pretty_(printer, False)
            break
        if "__repr__" in vars(cls):
            printer.text(repr(x))
            break
    return {**out, "text/plain": printer.said}


def double(x: Any) -> Any:
    return x * 2.0


def product(a: cr.Tensor, b: cr.Tensor) -> cr.Tensor:
    return cr.relu(a * b)


def loss() -> cr.Tensor:
    x = cr.tensor([1.0, -2.0], requires_grad=True)
    return (cr.log(x * x) * x).sum()


def report() -> verify.Report:
    return verify.pair(double, lambda g, x: g * 3.0, np.array([1.0, 2.0]))


def step() -> Any:
    @cr.jit
    def squares(x: Any) -> Any:
        return (x * x).sum()

    squares(np.ones(8))
    return squares


def bad() -> Any:
    x = cr.tensor([-1.0], requires_grad=True)
    with np.errstate(all="ignore"):
        return explain.first_bad(cr.log(x).sum())


kept: list[Any] = []

ANSWERS: dict[str, Callable[[], Any]] = {
    "report": report,
    "step.explain": lambda: step().explain(repeats=1),
    "saved_bytes": lambda: explain.saved_bytes(loss()),
    "first_bad": bad,
    "why": lambda: explain.why(loss(), cr.tensor(1.0, requires_grad=True)),
    "who_keeps": lambda: explain.who_keeps(np.ones(3)),
    "leaks": lambda: explain.leaks(lambda: kept.append(loss())),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_shown_and_not_their_fields(name: str):
    gc.freeze()  # what other tests have left is none of theirs
    answer = ANSWERS[name]()
    shown = ipython_shows(answer)
    assert shown["text/plain"] == str(answer)
    text = "".join(ET.fromstring(shown["text/html"].replace("<br>", " ")).itertext())
    words = set(re.findall(r"[a-z]{4,}", str(answer).splitlines()[0]))
    assert words and words <= set(re.findall(r"[a-z]{4,}", text))
    kept.clear()


@pytest.mark.parametrize("name", ["step.explain", "saved_bytes"])
def test_tables_are_tables(name: str):
    html = ipython_shows(ANSWERS[name]())["text/html"]
    rows = re.findall(r"<tr>.*?</tr>", html)
    assert len({len(re.findall(r"<t[dh]", row)) for row in rows}) == 1 and len(rows) >= 2
    assert '<th class="text" scope="col">' in rows[0]


def test_a_picture_is_a_string_and_a_picture(tmp_path: Path):
    picture = show.svg(product, 2.0, -3.0)
    shown = ipython_shows(picture)
    assert shown["image/svg+xml"] == picture and picture in shown["text/html"]
    assert "a graph of 4 nodes" in shown["text/plain"] and "<svg" not in shown["text/plain"]
    path = tmp_path / "y.svg"
    path.write_text(picture, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == picture == picture + ""
    assert isinstance(picture, str) and ET.fromstring(picture).tag.endswith("svg")


def test_a_drawing_is_shown_as_both():
    shown = ipython_shows(show.graph(product, 2.0, -3.0))
    assert shown["image/svg+xml"] in shown["text/html"]
    assert shown["text/plain"].startswith(" ") and "relu" in shown["text/plain"]


@pytest.mark.parametrize(
    "text", [lambda: show.text(product, 2.0, -3.0), lambda: step().loops(),
             lambda: step().source_of("k0_sum", language="loops")]
)  # fmt: skip
def test_texts_of_lines_are_shown_as_lines(text: Callable[[], str]):
    said = text()
    assert ipython_shows(said)["text/plain"] == said and "\n" in said


def test_the_style_sheet_does_not_leak():
    whole = re.sub(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)[^{}]*\}", r"\1", STYLE)
    selectors = [s.strip() for block in re.findall(r"([^{}]+)\{", whole) for s in block.split(",")]
    joined = ", ".join(selectors)
    for selector in re.split(r",\s*(?![^()]*\))", joined):
        assert f".{SCOPE}" in selector, selector
    assert "html" not in joined and ":root" not in joined and "body" not in joined
    shown = ipython_shows(report())["text/html"]
    assert shown.startswith(f'<div class="{SCOPE}">') and "<html" not in shown


def test_backticks_are_code():
    assert to_html("call `f(<x>)` in `g`") == "call <code>f(&lt;x&gt;)</code> in <code>g</code>"
    assert to_html("a ` b") == "a ` b" and to_html("`a` b ` c") == "<code>a</code> b ` c"
    assert to_html("") == ""


# --- progress


class Display:
    """What IPython's `display` gives with a display_id; keeps what it was told."""

    def __init__(self) -> None:
        self.outputs: list[list[str]] = []

    def display(self, data: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        states = [data["text/plain"]]
        self.outputs.append(states)
        return SimpleNamespace(update=lambda d, raw: states.append(d["text/plain"]))


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    shown = Display()
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=shown.display))
    monkeypatch.setattr(module, "in_notebook", lambda: True)
    return shown


def run(console: Console, steps: int) -> None:
    with module.progress(console, 0, steps) as p:
        for i in range(1, steps + 1):
            p.step(i, 3.0 - i / steps, 2.5 if i == steps else None)


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("steps", [1, 2000])
def test_a_notebook_has_one_output_that_changes(notebook: Display, terminal: bool, steps: int):
    console = Console(file=io.StringIO(), force_terminal=terminal, _environ={})
    run(console, steps)
    (states,) = notebook.outputs
    assert f"{steps}/{steps}" in states[-1] and "held-out 2.5000" in states[-1]
    assert len(states) < steps / 2 + 3 and all("\n" not in s for s in states)
    assert isinstance(console.file, io.StringIO) and console.file.getvalue() == ""


def test_a_run_that_is_stopped_shows_its_last_step(notebook: Display):
    with pytest.raises(KeyboardInterrupt), module.progress(Console(), 0, 9) as p:
        for i in range(1, 4):
            p.step(i, 1.0, None)
        raise KeyboardInterrupt
    assert "3/9" in notebook.outputs[0][-1]


def test_a_run_that_takes_no_step_has_an_end(notebook: Display):
    with module.progress(Console(), 5, 5):
        pass
    assert len(notebook.outputs) == 1


def test_this_is_no_notebook():
    assert not module.in_notebook()
