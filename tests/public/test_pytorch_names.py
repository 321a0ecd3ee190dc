"""docs/pytorch_names.md is what PyTorch's lists and ours say, without a blank; so do errors."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from chainrule.names import not_offered

pytest.importorskip("torch", reason="the lists are PyTorch's")
pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "pytorch_names.py"))


def test_the_page_is_up_to_date(script: dict[str, Any]):
    page = (ROOT / "docs" / "pytorch_names.md").read_text(encoding="utf-8")
    assert page == script["text"](), "run python scripts/pytorch_names.py"
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 900 and all(row[1].strip() for row in rows)


def test_what_is_not_offered_is_an_error_that_says_what_to_write(script: dict[str, Any]):
    for title, found, ours, _, _ in script["sections"]():
        assert found, title
        for name in [n for n in found if not script["is_offered"](ours, n)]:
            with pytest.raises((AttributeError, TypeError)) as caught:
                getattr(ours, name)(print)  # a module of that name is an error when it is called
            assert ": write " in str(caught.value) or "': " in str(caught.value), caught.value


def test_what_is_offered_is_there(script: dict[str, Any]):
    for _, found, ours, _, _ in script["sections"]():
        for name in [n for n in found if script["is_offered"](ours, n)]:
            getattr(ours, name)


def test_a_family_answers_for_several_names(script: dict[str, Any]):
    """What one sentence says is no sentence for one name."""
    lists = {title: found for title, found, *_ in script["sections"]()}
    every = {*lists["torch"], *lists["torch.Tensor"]}
    for family in not_offered.FAMILIES:
        assert len([n for n in every if family.holds(n)]) > 1, family.title
        assert set(family.names) <= every, set(family.names) - every
