"""The HTML report as a page: it fits its window, explains its colours, and can be read aloud."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from chainrule.verify.finding import Correction, Finding, Heat, Name
from chainrule.verify.ledger import Checked, Ledger, Skipped
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report

LONG = "    return " + " @ ".join(["the_derivative_of_the_activation"] * 6)
RIGHT = np.random.default_rng(0).normal(size=(12, 15))
WIDTHS = (390, 768, 1100, 1600)


def whole() -> Report:
    """A report with the longest of everything: code, paths, words, tables."""
    place = Place(
        "/home/somebody/" + "a_folder_of_a_long_name/" * 6 + "train.py", 7, "Net.backward"
    )
    finding = Finding(
        level="error",
        subject="transformer.blocks.0.attention.projection",
        kind="torch.autograd.Function",
        input="x",
        names=(Name("factor", "`A` = 2 `N`", "a" * 200), Name("missing_term", "explains `40 %`")),
        place=place,
        error=0.65,
        tolerance=3e-11,
        evidence=("`loss.backward()` comes before `optimizer.zero_grad()` in `<lambda>`",),
        correction=Correction("divide `x_bar` by 2", LONG, LONG + ".T", place, True, 2e-12),
        heat=Heat(np.where(RIGHT > 1.5, np.nan, RIGHT), RIGHT, (3, 4), (3, 5)),
        table=(tuple(f"a column {i}" for i in range(30)), tuple(f"{i}e-300" for i in range(30))),
    )
    warning = dataclasses.replace(finding, level="warning", heat=None)
    ledger = Ledger([Checked("Net", "Function", 1, 0.1)], [Skipped("q" * 150, "no `float` input")])
    return Report("train.py", (finding, warning), ledger)


class Outline(HTMLParser):
    """Headings, attributes of tags, and the text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data


def test_words_in_backticks_are_code_and_no_backtick_is_left():
    page = whole().to_html()
    assert "`" not in page
    for word in ("A", "N", "40 %", "loss.backward()", "&lt;lambda&gt;", "x_bar", "float"):
        assert f"<code>{word}</code>" in page


def test_a_legend_says_what_every_colour_is():
    page = whole().to_html()
    legend = page[page.index("<h2>colours</h2>") :]
    for word in ("WRONG", "LOOK", "note", ">-<", ">+<", "blue above 0", "orange below 0", "NaN"):
        assert word in legend
    fills = set(re.findall(r'fill="(#\w+)"', page))
    strongest = {"#3232ff", "#ff8432", "#000000"}
    assert strongest & fills <= set(re.findall(r"#\w+", legend)) and "#000000" in fills
    plain = dataclasses.replace(whole().findings[0], heat=None)
    assert "Jacobian:" not in Report("f", (plain,), Ledger()).to_html()
    assert "<h2>colours</h2>" not in Report("f", (), Ledger()).to_html()


def test_the_page_can_be_read_aloud():
    outline = Outline(whole().to_html())
    names = [tag for tag, _ in outline.tags]
    assert names.count("h1") == names.count("main") == 1 and names.count("h2") == 4
    assert dict(outline.tags)["html"]["lang"] == "en" and "train.py" in outline.text
    for tag, attributes in outline.tags:
        if tag == "pre" or attributes.get("class") == "scroll":  # by keys, too, it can be scrolled
            assert attributes["tabindex"] == "0"
        if tag == "svg":
            assert attributes["role"] == "img"
        if tag == "th":
            assert attributes["scope"] == "col"
    titles = re.findall(r"<svg[^>]*>\s*<title>(.*?)</title>", whole().to_html())
    assert len(titles) == 3 and len(set(titles)) == 3


def test_what_the_terminal_breaks_is_one_row_of_the_ledger():
    page = whole().to_html()
    ledger = page[page.index("<h2>ledger</h2>") :]
    assert ledger.count("<dt>") == 2 and "<dt></dt>" not in ledger
    assert "q" * 80 in ledger


chromium = pytest.mark.skipif(
    shutil.which("chromium") is None,
    reason="chromium is not installed: pages were not laid out",
)


def overflowing(page: str, folder: Path) -> dict[str, list[str]]:
    """By width of the window, what a browser lays out beyond its card, or beyond the window."""
    frames = "".join([
        f'<iframe id="w{w}" style="width:{w}px;height:900px" srcdoc="{escape(page)}"></iframe>'
        for w in WIDTHS
    ])  # fmt: skip
    script = """
    const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
    const inside = e => e !== null && (scrolls(e) || inside(e.parentElement));
    addEventListener('load', () => {
      const found = {};
      for (const f of document.querySelectorAll('iframe')) {
        const d = f.contentDocument, out = found[f.id] = [];
        if (d.documentElement.scrollWidth > d.documentElement.clientWidth) out.push('page');
        for (const s of d.querySelectorAll('section')) {
          const right = s.getBoundingClientRect().right;
          for (const e of s.querySelectorAll('*'))
            if (!inside(e.parentElement) && e.getBoundingClientRect().right > right + 0.5)
              out.push(e.tagName);
        }
      }
      document.body.textContent = 'FOUND' + JSON.stringify(found) + 'FOUND';
    });"""
    path = folder / "frames.html"
    path.write_text(f"<!doctype html><body>{frames}<script>{script}</script>", encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
               f"--user-data-dir={folder / 'profile'}", path.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.split("FOUND")[1])


@chromium
def test_nothing_leaves_its_card_at_any_width(tmp_path: Path):
    found = overflowing(whole().to_html(), tmp_path)
    assert found == {f"w{w}": [] for w in WIDTHS}
    (tmp_path / "planted").mkdir()
    planted = whole().to_html().replace("minmax(0, 1fr)", "1fr").replace("min-width: 0", "")
    found = overflowing(planted.replace("overflow-x: auto", ""), tmp_path / "planted")
    assert "page" in found["w390"] and found["w1100"]
