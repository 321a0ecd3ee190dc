"""docs/pytorch_names.md is what PyTorch's lists and ours say, without a blank; so do errors."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the lists are PyTorch's")
pytestmark = pytest.mark.filterwarnings("ignore")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "pytorch_names.py"))


def test_the_page_is_up_to_date(script: dict[str, Any]):
    page = (ROOT / "docs" / "pytorch_names.md").read_text(encoding="utf-8")
    assert page == script["text"](), "run python scripts/pytorch_names.py"
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 300 and all(row[1].strip() for row in rows)


def test_what_is_not_offered_is_an_error_that_says_what_to_write(script: dict[str, Any]):
    for title, found, ours, _, _ in script["sections"]():
        assert found, title
        for name in [n for n in found if n not in vars(ours)]:
            with pytest.raises(AttributeError) as caught:
                getattr(ours, name)
            assert "': " in str(caught.value), f"{title}.{name}: {caught.value}"
