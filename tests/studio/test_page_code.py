"""The code of the pages as one text: names are unique, imports exist, and nothing is fetched."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from chainrule.studio.page import POLICY, joined_code, modules_in_order, page, web_file
from tests.studio.page_code import NODE, needs_node

WEB = Path(str(files("chainrule.studio") / "web"))
LOADER = "chainrule.mjs"
MODULES = sorted([*[p.name for p in WEB.glob("*.mjs")], LOADER])
ENTRIES = ("report_document.mjs", "shell.mjs", "trace_document.mjs")
IMPORT = re.compile(r'^import\s+(.*?)\s+from\s+"(.*?)";', re.M | re.S)
NAMED = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let|var)\s+(.*)", re.M)


def names_at_top(text: str) -> list[str]:
    """The names that a module declares at its left edge."""
    out: list[str] = []
    for rest in NAMED.findall(text):
        if rest.startswith(("{", "[")):
            out += re.findall(r"[\w$]+", rest.split("=")[0])
        else:
            first = re.match(r"[\w$]+", rest)
            assert first, rest
            out.append(first[0])
            out += re.findall(r"(?<=, )([\w$]+)(?= = )", rest) if rest.endswith(";") else []
    return out


def exports(text: str) -> set[str]:
    listed = re.findall(r"^export \{(.*?)\}", text, re.M | re.S)
    direct = re.findall(r"^export (?:async )?(?:function|class|const|let)\s+([\w$]+)", text, re.M)
    return {*direct, *[n.strip() for part in listed for n in part.split(",")]}


def test_names_at_the_top_are_unique():
    homes: dict[str, str] = {}
    for module in MODULES:
        for name in names_at_top(web_file(module)):
            assert name not in homes, f"{name} is in {module} and in {homes[name]}"
            homes[name] = module
    assert {"Player", "h", "s", "load", "decodeTrace", "networkPage"} <= set(homes)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_imported_is_there_and_used(module: str):
    text = web_file(module)
    body = IMPORT.sub("", text)
    for names, source in IMPORT.findall(text):
        assert source.startswith("./") and source[2:] in MODULES
        assert re.fullmatch(r"\{[^{}]*\}", names), "only names in braces are joined"
        wanted = {n.strip() for n in names.strip("{}").split(",")} - {""}
        assert wanted <= exports(web_file(source[2:])), (module, source)
        for name in wanted:
            used = rf"(?<![\w$])(?:(?<!\.)|(?<=\.\.\.)){re.escape(name)}(?![\w$])"
            assert re.search(used, body), (module, name)


@pytest.mark.parametrize("file", sorted([p.name for p in WEB.iterdir()]))
def test_a_file_is_short_and_so_are_its_lines(file: str):
    lines = web_file(file).splitlines()
    assert len(lines) <= 300, len(lines)
    assert [n for n, line in enumerate(lines, 1) if len(line) > 120] == []


def test_every_module_is_in_a_page():
    assert set(MODULES) == {m for entry in ENTRIES for m in modules_in_order(entry)}


@pytest.mark.parametrize("entry", ENTRIES)
def test_joined_code_stands_alone(entry: str):
    text = joined_code(entry)
    assert not re.search(r"^\s*(import|export)\b", text, re.M)
    assert not re.search(
        r"\bimport\s*\(|\bfetch\s*\(|XMLHttpRequest|WebSocket|\beval\s*\(|new Function", text
    )
    assert "localStorage" not in text and "sessionStorage" not in text
    assert "</script" not in text


@needs_node
@pytest.mark.parametrize("entry", ENTRIES)
def test_joined_code_is_one_module(tmp_path: Path, entry: str):
    """A name that two files declare would be a syntax error here."""
    file = tmp_path / "joined.mjs"
    file.write_text(joined_code(entry), encoding="utf-8")
    done = subprocess.run(
        [str(NODE), "--check", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class Document(HTMLParser):
    """The tags of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_page_is_one_file(entry: str):
    text = page("a </title> & <b>", entry, data={"x": "</script><!--"}, binaries={"m": b"abc"})
    tags = Document(text).tags
    policies = [a["content"] for t, a in tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [POLICY] and POLICY.startswith("default-src 'none'")
    for tag, attributes in tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "href", "action"} & set(attributes), (tag, attributes)
        assert not [a for a in attributes if a.startswith("on")]
    kinds = [a.get("type") for t, a in tags if t == "script"]
    assert kinds == ["application/json", "module"]
    assert [t for t, _ in tags].count("style") == 1
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
