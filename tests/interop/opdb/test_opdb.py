"""Every entry of PyTorch's op table that we have a function for, sample by sample.

Eight samples of each; `make sweep` asks about a larger selection, OPDB=full about all.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.sampling import sampled, sampled_file

pytest.importorskip("torch", reason="the oracle is PyTorch")
pytest.importorskip("expecttest", reason="PyTorch's op table imports it")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

import chainrule as cr
from tests.interop.opdb.harness import FULL, Case, Row, cases
from tests.interop.opdb.questions import QUESTIONS, ask, run
from tests.interop.opdb.table import ROWS
from tests.interop.opdb.third import Verdict, verdict

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    sampled_file(one_in=5),
]


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


ENTRIES = {_name(op): op for op in op_db}

WRONG: dict[str, tuple[set[str], str]] = {
    "nn.functional.hardsigmoid": (
        {"gradient", "forward"},
        "its slope is 1/6 rounded to float32, in float64 as well",
    ),
    "logcumsumexp": (
        {"forward", "second"},
        "the jvp and the second derivative lose half the digits",
    ),
    "cholesky_inverse": ({"forward"}, "the jvp loses half the digits"),
}
"""Entries where PyTorch 2.13 is wrong: in which answers, and how. Each run proves it again."""

KINKS = {"linalg.norm.subgradients_at_zero": "second"}
"""Answers that do not exist: PyTorch says NaN, ours is finite (norm'(0) = 0)."""

PROVED = {"logsumexp": "second"}
"""Answers of PyTorch's that have lost so many digits that their differences say nothing:
`test_pytorch_is_wrong` says who is right."""


@sampled(one_in=3)
@pytest.mark.parametrize("enough", [8, pytest.param(None, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.entry)
def test_entry(row: Row, enough: int | None):
    outcome = run(row, ENTRIES[row.entry], enough)
    assert outcome.compared, f"no sample of {row.entry} is one of ours: {outcome.unlike}"
    questions, _ = WRONG.get(row.entry, (set[str](), ""))
    for question, asked, difference in outcome.differences:
        assert question != "value", difference
        if KINKS.get(row.entry) == question:
            assert np.isnan(difference.want).any() and np.isfinite(difference.got).all()
            continue
        found = verdict(question, asked)
        if found is Verdict.BOTH:
            continue
        if found is Verdict.NEITHER and PROVED.get(row.entry) == question:
            continue
        assert found is Verdict.OURS and question in questions, f"{found.value}: {difference}"


@pytest.mark.parametrize("entry", WRONG)
def test_where_pytorch_is_wrong_it_still_is(entry: str):
    """A list of excuses must not outlive its reasons."""
    (row,) = [r for r in ROWS if r.entry == entry]
    found = {q for q, asked, _ in run(row, ENTRIES[entry]).differences}
    assert found == WRONG[entry][0]


def test_the_table_names_entries_once():
    names = [row.entry for row in ROWS]
    assert len(set(names)) == len(names)
    assert set(names) <= ENTRIES.keys()


def test_the_table_is_as_long_as_the_page_says():
    differentiable = [r for r in ROWS if ENTRIES[r.entry].supports_autograd]
    assert len(differentiable) == len(ROWS) >= 400


# --- The harness notices -------------------------------------------------------------------------


def _first(entry: str, ours: Any) -> Case:
    (row,) = [r for r in ROWS if r.entry == entry]
    return next(iter(cases(Row(entry, ours, row.theirs), ENTRIES[entry])))


PLANTED = {
    "value": lambda x: cr.tanh(x) * (1 + 1e-7),
    "gradient": lambda x: cr.where(x > 0, cr.tanh(x), cr.tanh(x.detach())),
    "forward": lambda x: cr.where(x > 0, cr.tanh(x), cr.tanh(x.detach())),
    "second": lambda x: cr.tanh(x.detach()) + (x - x.detach()) * (1 - cr.tanh(x.detach()) ** 2),
}


@pytest.mark.parametrize("question", PLANTED)
def test_a_planted_mistake_is_found(question: str):
    asked = ask(_first("tanh", PLANTED[question]))
    assert any(QUESTIONS[question](asked))
    if question != "value":
        assert not any(QUESTIONS["value"](asked))
        assert verdict(question, asked) is Verdict.THEIRS


def test_the_right_function_is_not_accused():
    asked = ask(_first("tanh", cr.tanh))
    for question in QUESTIONS.values():
        assert not any(question(asked))
    assert verdict("second", asked) is Verdict.BOTH


def test_samples_are_a_selection_unless_all_are_asked_for():
    (row,) = [r for r in ROWS if r.entry == "linalg.vector_norm"]
    numbers = sorted([case.number for case in cases(row, ENTRIES[row.entry])])
    assert len(numbers) == 180 if FULL else numbers[:8] == [*range(8)] and 20 < len(numbers) <= 32
