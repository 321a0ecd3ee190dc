"""From subjects to a report: order, victims, the ledger, and our own failures kept to ourselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chainrule.verify.arrays.pair import subject_of_pair
from chainrule.verify.certifying import certify as module
from chainrule.verify.certifying.certify import certify
from chainrule.verify.diagnose.edits import name_by_edit
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.ledger import Ledger
from chainrule.verify.subject import Array, Subject


def tanh(x: Any) -> Any:
    return np.tanh(x)


def right(g: Any, x: Any) -> Any:
    return g * (1 - np.tanh(x) ** 2)


def flipped(g: Any, x: Any) -> Any:
    return -g * (1 - np.tanh(x) ** 2)


def untouched(g: Any, x: Any) -> Any:
    return g


X = np.random.default_rng(0).normal(size=(3, 4))


def subject(backward: Callable[..., Any], name: str = "tanh") -> Subject:
    return replace(subject_of_pair(tanh, backward, (X,), cotangent="first"), name=name)


class Whole(Subject):
    """A thing without a backward of its own, wrong as its part is."""

    def __init__(self, part: Subject, name: str) -> None:
        self.part, self.name, self.kind = part, name, "model"
        self.inputs, self.place = part.inputs, part.place

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        return self.part.forward(xs)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        return self.part.pull(xs, gs)


def test_a_right_gradient_is_certified_and_a_wrong_one_is_planted_and_caught() -> None:
    report = certify("tanh", [subject(right)])
    assert report.ok
    assert not report.findings
    assert [c.subject for c in report.ledger.checked] == ["tanh"]
    assert report.ledger.planted is not None
    assert report.ledger.planted.caught


def test_a_wrong_one_is_named_corrected_in_code_and_rechecked() -> None:
    report = certify("tanh", [subject(flipped)])
    (found,) = report.findings
    assert found.name.code == "sign"
    assert found.correction is not None
    assert found.correction.rechecked
    assert "return g * (1 - np.tanh(x) ** 2)" in found.correction.after
    assert found.place is not None
    assert found.place.text == "return -g * (1 - np.tanh(x) ** 2)"


def test_findings_come_in_the_order_of_the_subjects_errors_first() -> None:
    report = certify("both", [subject(right, "a"), subject(untouched, "b"), subject(flipped, "c")])
    assert [f.subject for f in report.findings] == ["b", "c"]
    assert len(report.ledger.checked) == 3


def test_what_lies_upstream_and_what_contains_the_culprit_are_its_victims() -> None:
    part = subject(flipped, "net.act")
    report = certify(
        "net", [Whole(part, "net"), part], upstream={"net.act": ("net.linear", "net.norm")}
    )
    (found,) = report.findings
    assert found.subject == "net.act"
    assert found.victims == ("net.linear", "net.norm", "net")
    assert [c.subject for c in report.ledger.checked] == ["net.act"]
    assert [(s.subject, s.why) for s in report.ledger.skipped if s.subject == "net"] == [
        ("net", "net.act is wrong: look again once that is right")
    ]


def test_a_whole_that_is_wrong_by_itself_is_not_excused() -> None:
    report = certify("net", [Whole(subject(flipped), "net"), subject(right, "net.act")])
    assert [f.subject for f in report.findings] == ["net"]


@pytest.mark.parametrize("part", ["examine", "diagnose", "repair", "planted"])
def test_a_failure_of_ours_is_a_line_of_the_ledger(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> Any:
        raise RuntimeError("our own fault")

    monkeypatch.setattr(module, part, broken)
    report = certify("tanh", [subject(flipped), subject(right, "other")])
    assert any("our own fault" in s.why for s in report.ledger.skipped)


def test_an_interrupted_run_reports_what_it_has_seen() -> None:
    def interrupted() -> Iterator[Subject]:
        yield subject(flipped)
        raise KeyboardInterrupt

    report = certify("tanh", interrupted())
    assert [f.name.code for f in report.findings] == ["sign"]
    assert any("interrupted" in s.why for s in report.ledger.skipped)


def test_what_could_not_be_measured_is_not_called_checked() -> None:
    def random(x: Any) -> Any:
        return x * np.random.default_rng().normal()

    made = subject_of_pair(random, lambda g, x: g, (X,), cotangent="first")
    ledger = Ledger()
    report = certify("random", [made], ledger=ledger)
    assert report.ok
    assert ledger.checked == []
    assert ledger.skipped


FOUND = Finding("error", "f", "pair", "x", (Name("sign", "A = -N", rank=1.0),))
EDIT = Correction("", "a", "b", None, True, 1e-9)


def test_the_name_of_an_edit_goes_first() -> None:
    assert [n.code for n in name_by_edit(FOUND, ["sign"], EDIT).names] == ["sign"]
    assert [n.code for n in name_by_edit(FOUND, ["wrong_value"], EDIT).names] == [
        "wrong_value",
        "sign",
    ]


@pytest.mark.parametrize("code", ["not_linear", "ignores_cotangent", "contiguity", "size"])
def test_but_for_what_was_measured_at_other_cotangents_and_sizes(code: str) -> None:
    measured = replace(FOUND, names=(Name(code, "seen in a trial", rank=1.0),))
    assert [n.code for n in name_by_edit(measured, ["factor"], EDIT).names] == [code, "factor"]


@pytest.mark.parametrize("rank", [9.0, 24.0, 99.0])
def test_an_edit_goes_before_a_name_that_only_describes(rank: float) -> None:
    vague = replace(FOUND, names=(Name("region", "some elements", rank=rank),))
    assert [n.code for n in name_by_edit(vague, ["transposed"], EDIT).names] == [
        "transposed",
        "region",
    ]


def test_an_edit_takes_the_place_of_unnamed() -> None:
    unnamed = replace(FOUND, names=(Name("unnamed", "nothing fits", rank=99.0),))
    assert [n.code for n in name_by_edit(unnamed, ["transposed"], EDIT).names] == ["transposed"]


def test_the_formula_stays_beside_the_edit() -> None:
    stated = replace(FOUND, correction=Correction("x_bar = -x_bar"))
    made = name_by_edit(stated, ["sign"], EDIT).correction
    assert made is not None
    assert (made.formula, made.after, made.rechecked) == ("x_bar = -x_bar", "b", True)
