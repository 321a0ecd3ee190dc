"""A program with a wrong rule in the player: it is named, corrected, and its victims are marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.studio.play import trace_page
from tests.studio.chromium import needs_chromium, opened

pytestmark = needs_chromium


class Doubled(cr.Function):
    """3 x, with a backward that says 2."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The value."""
        return args[0] * 3.0

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """Wrong on purpose."""
        return gs[0] * 2.0


def wrong_program(w: Any, x: Any) -> Any:
    hidden = x @ w
    tripled = Doubled.apply(hidden)
    return cr.sum(cr.tanh(tripled))


def right_program(w: Any) -> Any:
    return cr.sum(cr.tanh(w * 3.0))


def test_the_wrong_rule_is_named_and_corrected(browser: Any, tmp_path: Path):
    rng = np.random.default_rng(0)
    trace = cr.record(wrong_program, rng.normal(size=(3, 2)), rng.normal(size=(4, 3)))
    (tmp_path / "wrong.html").write_text(trace_page(trace), "utf-8")
    with opened(browser, (tmp_path / "wrong.html").as_uri()) as page:
        found = page.locator(".findings")
        assert "One rule is wrong in this backward pass. 3 gradients" in found.inner_text()
        assert "wrong constant factor" in found.inner_text()
        found.get_by_role("button").click()
        panel = page.locator(".panel")
        panel.get_by_text("The verifier's finding: wrong constant factor").wait_for()
        before, after = panel.locator(".diff").inner_text().split("\n")
        assert before == "- return gs[0] * 2.0" and after.startswith("+ return gs[0] * ")
        assert page.locator(".card.wrong").count() == 1
        assert page.locator(".card.victim").count() == 3


def test_a_right_program_has_no_findings(browser: Any, tmp_path: Path):
    trace = cr.record(right_program, np.array([0.5, -1.0]))
    (tmp_path / "right.html").write_text(trace_page(trace), "utf-8")
    with opened(browser, (tmp_path / "right.html").as_uri()) as page:
        page.locator(".card").first.wait_for()
        assert page.locator(".findings").count() == 0 and page.locator(".card.wrong").count() == 0


@pytest.mark.sweep
def test_a_step_of_training_opens_in_the_player(browser: Any, studio: str):
    url = f"{studio}#page=network&widths=3,3&residual=1&step=20"
    with opened(browser, url) as page:
        page.locator(".t-fact-step b").get_by_text("20", exact=True).wait_for()
        page.get_by_role("button", name="Play this step").click()
        page.get_by_role("heading", name="network at step 20, 12 of 240 points").wait_for()
        assert page.get_by_role("tab", name="Your program").get_attribute("aria-selected") == "true"
        page.locator(".card.parameter").first.wait_for()
        page.get_by_role("button", name="one step back").click()
        assert "Backward:" in page.locator(".sentence").inner_text()
