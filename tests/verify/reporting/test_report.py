"""Reports: what the terminal, a program, code review and a browser get."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from chainrule.verify.finding import Correction, Finding, Heat, Level, Name
from chainrule.verify.ledger import Checked, Ledger, Planted, Skipped
from chainrule.verify.mistakes import MISTAKES
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report

HERE = Path(__file__)
RIGHT = np.random.default_rng(0).normal(size=(12, 15))


def found(level: Level = "error") -> Finding:
    """A finding with everything that one can have."""
    place = Place(str(HERE), 1, "backward")
    return Finding(
        level=level,
        subject="Attention",
        kind="torch.autograd.Function",
        input="k",
        names=(
            Name("factor", "A = 2.828 N", "sqrt(d) = 2.828, d = 8"),
            Name("missing_term", "explains 40 %", apart="another size of d"),
        ),
        place=place,
        error=0.65,
        tolerance=3e-11,
        evidence=("12 of 12 rows differ <by a factor>",),
        correction=Correction("g / sqrt(d)", "    dk = a", "    dk = a / b", place, True, 2e-12),
        victims=("proj", "embed"),
        heat=Heat(2.828 * RIGHT, RIGHT, (3, 4), (3, 5)),
        table=(("layer", "norm"), ("fc1", "1e-06")),
    )


def report(*findings: Finding) -> Report:
    """A report with a ledger."""
    ledger = Ledger(
        [Checked("Attention", "Function", 120, 0.31), Checked("Linear", "Function", 30, 0.01)],
        [Skipped("q", "no float input"), Skipped("mask", "no float input")],
        Planted("x_bar of matmul times 1.001", True, "wrong constant factor"),
    )
    return Report("train.py", findings, ledger)


def test_text_says_where_what_how_sure_and_what_to_do() -> None:
    text = str(report(found()))
    for said in (
        "train.py: 1 finding",
        "WRONG  wrong constant factor  in Attention, gradient of k",
        f"{HERE}:1  in backward",
        "Reports: what the terminal",
        "relative error 0.65; rounding explains 3.0e-11",
        "sqrt(d) = 2.828, d = 8",
        "-     dk = a\n",
        "+     dk = a / b\n",
        "tried on the same values and on others: right, error 2.0e-12",
        "a term is missing: explains 40 %; another size of d",
        "wrong because of it: proj, embed",
        "fc1    1e-06",
        "2 things, 150 evaluations, 0.32 s",
        "q, mask: no float input",
        "x_bar of matmul times 1.001: caught, named 'wrong constant factor'",
    ):
        assert said in text


def test_a_change_that_ends_several_findings_is_shown_once() -> None:
    text = str(report(found(), found()))
    assert text.count("+     dk = a / b\n") == 1
    assert text.count(f"the change above, {HERE}:1") == 1
    assert text.count("tried on the same values and on others: right") == 2


def test_pictures_show_both_jacobians_on_one_scale() -> None:
    drawn = [line for line in str(report(found())).splitlines() if "█" in line or "░" in line]
    assert len(drawn) == 12
    left = "".join([line[4:28] for line in drawn])
    right = "".join([line[31:55] for line in drawn])
    assert "█" in left, "the larger Jacobian has the strongest shade"
    assert "█" not in right, "the smaller one has not"


def test_notes_are_no_findings_and_an_empty_run_says_so() -> None:
    assert report().ok
    assert report(found("note")).ok
    assert not report(found("warning")).ok
    assert "2 gradients certified" in str(report())
    assert "nothing could be checked" in str(Report("x", (), Ledger()))
    assert bool(report()) is True


def test_json_has_every_field() -> None:
    body = json.loads(report(found()).to_json())
    (finding,) = body["findings"]
    assert body["ok"] is False
    assert finding["names"][0].items() >= {
        ("title", "wrong constant factor"),
        ("code", "factor"),
        ("because", "A = 2.828 N"),
        ("detail", "sqrt(d) = 2.828, d = 8"),
    }
    assert finding["place"] == {"file": str(HERE), "line": 1, "function": "backward"}
    np.testing.assert_allclose(finding["heat"]["numeric"], RIGHT)
    assert body["ledger"]["planted"]["caught"] is True


def test_json_spells_what_it_has_no_number_for() -> None:
    odd = Heat(np.array([[np.nan, 1 + 2j]]), np.array([[np.inf, 0]]), (1,), (2,))
    bad = Finding("error", "f", "op", "x", (Name("nan", ""),), heat=odd, error=np.inf)
    (finding,) = json.loads(report(bad).to_json())["findings"]
    assert finding["error"] == "inf"
    assert finding["heat"]["analytic"] == [[["nan", 0.0], [1.0, 2.0]]]
    assert "!!" in str(report(bad))


def test_sarif_places_results_and_fixes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE.parent)
    (run,) = json.loads(report(found()).to_sarif())["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": HERE.name, "uriBaseId": "ROOT"}
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "factor"
    (change,) = result["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    assert replacement["insertedContent"]["text"] == "    dk = a / b\n"
    assert replacement["deletedRegion"]["endLine"] == 2


class _Balance(HTMLParser):
    """Fails on a tag that is closed where it was not opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_html_is_one_page_that_needs_nothing_else() -> None:
    page = report(found()).to_html()
    parser = _Balance()
    parser.feed(page)
    assert parser.open == []
    assert parser.seen.count("svg") == 3
    assert parser.seen.count("rect") == 3 * (12 * 15 + 1)  # and a frame
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "&lt;by a factor&gt;" in page


def test_save_goes_by_the_ending_and_leaves_nothing_half(tmp_path: Path) -> None:
    whole = report(found())
    for ending in (".json", ".sarif", ".html", ".txt"):
        path = whole.save(tmp_path / f"r{ending}")
        assert path.stat().st_size > 100
    assert len(list(tmp_path.iterdir())) == 4
    with pytest.raises(ValueError, match=r"end it in \.json, \.sarif, \.html, \.txt"):
        whole.save(tmp_path / "r.doc")


def test_rich_shows_the_same_words() -> None:
    whole = report(found())
    assert [line.rstrip() for line in whole.__rich__().plain.splitlines()] == [
        line.rstrip() for line in str(whole).splitlines()
    ]


@pytest.mark.parametrize("code", MISTAKES)
def test_every_mistake_has_words(code: str) -> None:
    mistake = MISTAKES[code]
    assert mistake.title and mistake.means and mistake.code == code


def test_the_page_lists_every_mistake() -> None:
    page = (HERE.parents[3] / "docs" / "verify.md").read_text(encoding="utf-8")
    for mistake in MISTAKES.values():
        assert f"| `{mistake.code}` | {mistake.title} | {mistake.means} |" in page


def test_a_mistake_that_is_in_no_table_is_refused_where_it_is_named():
    with pytest.raises(ValueError, match="'saturated' is no row of the table of mistakes"):
        Name("saturated", "")
