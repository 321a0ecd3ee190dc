"""Every program that is compiled while these tests run is checked (`compile.checking.spec`)."""

from __future__ import annotations

import pytest

from chainrule.compile.runtime import build
from chainrule.compile.scalars import runs
from chainrule.compile.scalars.reroll import families
from chainrule.compile.scalars.steps import update

build.CHECKING = True


@pytest.fixture
def eager_rolling(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that can be rolled up is, however little it pays."""
    for module, name, least in (
        (runs, "CALLS", 1), (runs, "PART", 0), (runs, "LEAST", 0), (families, "EACH", 0),
        (update, "CALLS", 1), (update, "LEAST", 0),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, least)
