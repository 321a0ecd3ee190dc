"""Every text file is read and written in UTF-8, whatever the machine's own encoding is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("chainrule", "tests", "bench", "docs", "scripts")
FILES = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))
BINARY_OPEN = {"os", "tarfile", "zipfile", "gzip", "Image"}
"""Modules whose `open` makes no text."""
PLACES = {"read_text": 0, "write_text": 1, "open": 2, "fdopen": 3}
"""By function the place of `encoding` among its arguments; of a path's `open` as of the built-in's,
whose first argument is the path."""


def without_encoding(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that open, read or write a text file and leave its encoding to the machine."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not any(k.arg == "encoding" for k in node.keywords):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            named = {"open"} if owner is None else set(PLACES)
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name not in named or (name == "open" and ast.unparse(owner or node) in BINARY_OPEN):
                continue
            own = name == "open" and owner is not None
            if len(node.args) <= PLACES[name] - own and not _binary(node, 0 if own else 1):
                yield node


def _binary(call: ast.Call, place: int) -> bool:
    """Whether the mode, at this place of the arguments or by name, says that bytes are meant."""
    modes = [k.value for k in call.keywords if k.arg == "mode"] + call.args[place : place + 1]
    return any(isinstance(m, ast.Constant) and "b" in str(m.value) for m in modes)


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_have_an_encoding(folder: str):
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)}"
        for path in FILES
        if path.is_relative_to(ROOT / folder)
        for text in [path.read_text(encoding="utf-8")]
        if any(f"{name}(" in text for name in PLACES)
        for call in without_encoding(ast.parse(text))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("open('x')", True),
        ("open('x', 'w')", True),
        ("open('x', 'rb')", False),
        ("open('x', mode='wb')", False),
        ("open('x', encoding='utf-8')", False),
        ("p.open()", True),
        ("p.open('ab')", False),
        ("os.fdopen(1, 'w')", True),
        ("os.fdopen(1, 'wb')", False),
        ("os.open('x', 0)", False),
        ("p.read_text()", True),
        ("p.read_text('utf-8')", False),
        ("p.write_text('b')", True),
        ("p.write_text('b', 'utf-8')", False),
    ],
)
def test_calls_without_one_are_seen(code: str, wrong: bool):
    assert bool(list(without_encoding(ast.parse(code)))) is wrong
