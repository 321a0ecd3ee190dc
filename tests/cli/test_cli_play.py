"""`chainrule play`: the page that it writes, the state in which it opens, what it refuses."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import chainrule as cr
from chainrule.cli.main import main
from chainrule.studio import play

SCRIPT = """
import sys
import chainrule as cr

w = cr.tensor([1.0, 2.0], requires_grad=True)
for _ in range(3):
    w.grad = None
    loss = (w * float(sys.argv[1])).sum()
    loss.backward()
    w.data = w - 0.1 * w.grad
"""


@pytest.fixture(autouse=True)
def no_modules(monkeypatch: pytest.MonkeyPatch):
    """Pages without WebAssembly, which takes seconds to make; and no browser."""
    monkeypatch.setattr(play, "page_modules", dict)
    monkeypatch.setattr("webbrowser.open_new_tab", lambda url: pytest.fail(f"opened {url}"))


def played(capsys: Any, *args: str) -> tuple[str, dict[str, list[str]], dict[str, Any]]:
    """The page, the state behind its address, the data in it."""
    assert main(["play", "--no-browser", *args]) == 0
    url = urlsplit(capsys.readouterr().out.strip())
    document = Path(url.path).read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="carried">(.*?)</script>', document)
    assert found is not None
    data = zlib.decompress(base64.b64decode(json.loads(found[1])["data"]))
    return document, parse_qs(url.fragment), json.loads(data)


def test_the_studio(capsys: Any):
    document, state, data = played(capsys)
    assert document.startswith("<!doctype html>") and not state
    assert data["first"] == "expr" and "trace" not in data


def test_an_expression_is_the_state_of_the_page(capsys: Any):
    _, state, _ = played(capsys, "expr", "relu(a*b + d)", "a=2", "b=-3", "d=1e1")
    assert state == {
        "page": ["expr"], "e": ["relu(a*b + d)"], "v.a": ["2.0"], "v.b": ["-3.0"], "v.d": ["10.0"],
    }  # fmt: skip


def test_a_trace_that_was_saved(capsys: Any, tmp_path: Path):
    cr.record(lambda a, b: a * b, 2.0, 3.0).save(tmp_path / "run.json")
    _, _, data = played(capsys, str(tmp_path / "run.json"))
    assert data["first"] == "trace" and len(data["trace"]["nodes"]) == 3


def test_one_step_of_a_script_with_its_arguments(capsys: Any, tmp_path: Path):
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    _, _, data = played(capsys, str(tmp_path / "train.py"), "4")
    ops = [n["op"] for n in data["trace"]["nodes"] if n["kind"] == "op"]
    assert ops[:2] == ["mul", "sum"] and len(data["trace"]["sweeps"]) == 1


def test_the_page_goes_where_it_is_told(capsys: Any, tmp_path: Path):
    played(capsys, "--save", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_mode & 0o444


def test_a_browser_opens_it(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open_new_tab", opened.append)
    assert main(["play", "--save", str(tmp_path / "page.html"), "expr", "a*b"]) == 0
    assert opened == [capsys.readouterr().out.strip()]


REFUSED = {
    ("expr",): "an expression comes next",
    ("expr", "a*b", "a"): "'a' is not of the form name=number",
    ("expr", "a*b", "a=x"): "'x' is not a number",
    ("nothing.py",): "there is no file nothing.py",
    ("--save", "page.txt"): "a page is an .html file",
    ("--save", "nowhere/page.html"): "there is no folder nowhere",
    ("--step", "0"): "steps are counted from 1",
    ("damaged.json",): "damaged.json is no trace: it is not JSON",
    ("damaged.json", "more"): "which takes no arguments",
}


@pytest.mark.parametrize("args", REFUSED)
def test_refusals_are_sentences(
    args: tuple[str, ...], capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("damaged.json").write_text("{", encoding="utf-8")
    assert main(["play", "--no-browser", *args]) == 2
    assert REFUSED[args] in " ".join(capsys.readouterr().err.split())
