"""A sample of the corpus of planted mistakes and correct cases; `bench verifier` runs it all.

The corpus itself is checked first: what it calls right agrees with differences, what it calls wrong
does not, so that no case is a dud.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("torch", reason="one of the three faces is PyTorch's")

from tests.verify.planted import alarms, duds, harness, independent, modules, slips
from tests.verify.planted.case import Case, Right
from tests.verify.planted.points import arguments

FACES = ("numpy", "own", "torch")
SMALL = [c for c in harness.planted(FACES) if c.right.op not in ("conv2d", "network_loss")]


def spread(cases: Sequence[Any], n: int) -> list[Any]:
    """About n of the cases, in even steps."""
    return list(cases[:: max(1, len(cases) // n)])


@pytest.mark.parametrize("right", [r for f in FACES for r in slips.rights(f)], ids=lambda r: r.name)
def test_right_code_is_right(right: Right) -> None:
    made = modules.of_right(right)
    run = independent.runner(right.face, made, right.call)
    errors = independent.errors(run, arguments(right.op, right.at), most=8)
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("case", spread(SMALL, 40), ids=lambda c: c.id)
def test_planted_mistakes_are_mistakes(case: Case) -> None:
    assert duds.wrong_inputs(case), "the spoiled backward agrees with differences"


def test_a_case_without_a_mistake_is_no_mistake() -> None:
    """The check of the corpus is shown to fail: an edit that changes nothing is a dud."""
    case = next(c for c in SMALL if c.id == "numpy/sigmoid/V2-twice")
    harmless = Case(
        case.right,
        slips.parsed("V2 same: factor\n- return grad_out * local\n+ return local * grad_out"),
    )
    assert not duds.wrong_inputs(harmless)


def test_edits_must_fit() -> None:
    case = next(c for c in SMALL if c.id == "numpy/sigmoid/V2-twice")
    gone = Case(case.right, slips.parsed("V2 gone: factor\n- no such text\n+ x"))
    with pytest.raises(ValueError, match="0 times, not once"):
        _ = gone.source


def share(outcomes: Sequence[Any], column: str) -> float:
    """How many of the outcomes have it."""
    return sum([getattr(o, column) for o in outcomes]) / len(outcomes)


@pytest.mark.parametrize("many", [12, pytest.param(24, marks=pytest.mark.sweep)])
def test_planted_mistakes_are_found_and_named(many: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = list(harness.run(spread(SMALL, many)))
    text = harness.table(outcomes)
    assert not [o.broke for o in outcomes if o.broke and not o.frozen], text
    assert share(outcomes, "detected") >= 0.95, text
    assert share(outcomes, "op") >= 0.95, text
    assert share(outcomes, "first") >= 0.8, text
    assert share(outcomes, "rechecked") >= 0.85, text


@pytest.mark.parametrize("many", [10, pytest.param(60, marks=pytest.mark.sweep)])
def test_correct_code_raises_no_alarm(many: int) -> None:
    cases = [c for c in alarms.correct() if "model" not in c.id and "script" not in c.id]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdicts = list(alarms.run(spread(cases, many)))
    assert not [v.id for v in verdicts if v.alarm], alarms.table(verdicts)
