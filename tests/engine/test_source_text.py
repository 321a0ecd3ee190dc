"""The user's lines are found and quoted wherever the code is: zip files, cells, `-c`, doctests."""

from __future__ import annotations

import ast
import doctest
import importlib
import json
import linecache
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chainrule
from chainrule.engine import source_text

PROGRAM = '''
import numpy as np
import chainrule as cr
from chainrule import explain, show, verify

def forward(x, w):
    return np.tanh(x @ w)

def backward(g, x, w):
    s = g * (1 - np.tanh(x @ w) ** 2)
    return s @ w, x.T @ s

def branch(x):
    y = x * 2
    return y if y > 1 else x

def gone(x):
    return cr.log(x - 5)

class Doubled(cr.Function):
    """A layer, the last line of which is its own."""
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 3

def refused():
    try:
        cr.jit(branch)(np.float64(3.0))
    except cr.TraceError as error:
        return str(error)

def answers():
    rng = np.random.default_rng(0)
    report = verify.pair(forward, backward, rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
    found = report.findings[0]
    x = cr.tensor(2.0, requires_grad=True)
    return {
        "line": found.place.text,
        "before": found.correction.before.strip(),
        "after": found.correction.after.strip(),
        "text": str(report),
        "page": report.to_html(),
        "refused": refused(),
        "first_bad": str(explain.first_bad(gone(x))),
        "saved": str(explain.saved_bytes(gone(x))),
        "drawn": show.text(gone, 2.0),
        "function": verify.function(Doubled, np.array([1.0, 2.0])).findings[0].place.text,
    }
'''
NAMES = ["<ipython-input-7-0123456789ab>", "/tmp/ipykernel_123/456.py", "<cell of a notebook>"]


def in_linecache(name: str) -> dict[str, Any]:
    lines = PROGRAM.splitlines(keepends=True)
    linecache.cache[name] = (len(PROGRAM), None, lines, name)
    try:
        scope: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(PROGRAM, name, "exec", dont_inherit=True), scope)
        return scope["answers"]()
    finally:
        del linecache.cache[name]


def in_zip(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    path = folder / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("packed_layers/__init__.py", "")
        archive.writestr("packed_layers/tanh.py", PROGRAM)
    monkeypatch.syspath_prepend(str(path))
    try:
        return importlib.import_module("packed_layers.tanh").answers()
    finally:
        for name in ("packed_layers", "packed_layers.tanh"):
            sys.modules.pop(name, None)


def in_process(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def in_doctest() -> dict[str, Any]:
    out: dict[str, Any] = {}
    statements = [ast.get_source_segment(PROGRAM, s) or "" for s in ast.parse(PROGRAM).body]
    examples = [doctest.Example(s, "") for s in [*statements, "out.update(answers())"]]
    case = doctest.DocTest(examples, {"out": out, "__name__": "__main__"}, "cell", None, None, None)
    assert doctest.DocTestRunner(verbose=False).run(case).failed == 0
    return out


def check(got: dict[str, Any]) -> None:
    assert got["line"] == got["before"] == "return s @ w, x.T @ s"
    assert got["after"] == "return s @ w.T, x.T @ s"
    assert got["line"] in got["text"] and got["line"] in got["page"]
    assert ":  return y if y > 1 else x" in got["refused"]
    assert "return cr.log(x - 5)" in got["first_bad"]
    assert "return cr.log(x - 5)" in got["saved"]
    assert got["function"].startswith(("def backward", "return g * 3", "@staticmethod", "class"))
    assert "log" in got["drawn"]


@pytest.mark.parametrize("name", NAMES)
def test_text_that_only_linecache_has(name: str):
    got = in_linecache(name)
    check(got)
    assert f"{Path(name).name}:" in got["drawn"]


def test_modules_of_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    got = in_zip(tmp_path, monkeypatch)
    check(got)
    assert "tanh.py:18" in got["drawn"]


def test_a_command():
    check(in_process("-c", f"{PROGRAM}\nimport json; print(json.dumps(answers()))", "an argument"))


def test_a_zip_file_that_is_run(tmp_path: Path):
    path = tmp_path / "program.pyz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__main__.py", f"{PROGRAM}\nimport json; print(json.dumps(answers()))")
    check(in_process(str(path)))


def test_examples_of_a_doctest():
    check(in_doctest())


def test_without_the_text_nothing_is_quoted_and_nothing_fails():
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(PROGRAM, "<nobody knows>", "exec", dont_inherit=True), scope)
    assert scope["answers"]
    with pytest.raises(AssertionError):  # what `check` asks for is not there by itself
        assert ":  return" in scope["refused"]()


# --- the door


def test_nobody_reads_source_by_another_way():
    others = {"linecache", "findsource", "getsource", "getsourcelines", "getsourcefile", "getblock"}
    found: list[str] = []
    for path in Path(chainrule.__file__).parent.rglob("*.py"):
        if path.name == "source_text.py":
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(word in text for word in others) else ():
            names = {getattr(node, "attr", ""), getattr(node, "id", "")}
            if isinstance(node, ast.Import):
                names |= {a.name for a in node.names}
            found += [f"{path.name}: {name}" for name in names & others]
    assert not found


def test_a_changed_file_is_read_again_and_a_deleted_one_remembered(tmp_path: Path):
    path = tmp_path / "f.py"
    path.write_text("a = 1\n", encoding="utf-8")
    assert source_text.source_line(str(path), 1) == "a = 1"
    path.write_text("a = 1 + 1\n", encoding="utf-8")
    assert source_text.source_line(str(path), 1) == "a = 1 + 1"
    path.unlink()
    assert source_text.source_line(str(path), 1) == "a = 1 + 1"
    assert source_text.source_line(str(path), 2) == ""
    assert source_text.file_lines(str(tmp_path / "never.py")) == []


def test_the_class_of_several_of_one_name():
    def make(second: bool) -> type:
        if second:

            class Layer:
                def forward(self) -> int:
                    return 2

            return Layer

        class Layer:  # type: ignore[no-redef]
            def forward(self) -> int:
                return 1

        return Layer

    for second in (True, False):
        assert f"return {1 + second}" in source_text.definition_text(make(second))
    assert source_text.definition(int) is None and source_text.definition(len) is None


@pytest.mark.parametrize("f", [lambda: 1, source_text.definition, source_text.definition.__code__])
def test_functions_and_code(f: Callable[..., Any]):
    text = source_text.definition_text(f)
    file = Path(getattr(f, "__code__", f).co_filename)
    assert text and text.splitlines()[0] in file.read_text("utf-8")


def test_a_cell_has_its_number(monkeypatch: pytest.MonkeyPatch):
    names = {"/tmp/ipykernel_1/2.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert source_text.short_line("/tmp/ipykernel_1/2.py:9") == "In[3]:9"
    assert source_text.display_line("/home/me/train.py:9") == "/home/me/train.py:9"
    assert source_text.short_line("") == ""
