"""The verifier's report: each finding opens in the player, as the wrong op with its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import verify
from chainrule.traces.check import check_trace
from chainrule.traces.findings import trace_of_finding
from chainrule.verify.reporting.report import Report
from tests.studio.chromium import needs_chromium, opened
from tests.traces.programs import check_file, check_terms

X, W = np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(4, 2))


def forward(x: Any, w: Any) -> Any:
    return np.tanh(x @ w)


def backward(g: Any, x: Any, w: Any) -> Any:
    y = np.tanh(x @ w)
    d = g * (1 - y * y)
    return d @ w.T * 2, x.T @ (g * (1 + y))


@pytest.fixture(scope="module")
def report() -> Report:
    return verify.pair(forward, backward, X, W)


def test_a_finding_is_a_trace(report: Report):
    assert [f.input for f in report.findings] == ["x", "w"]
    for finding in report.findings:
        trace = trace_of_finding(finding)
        assert trace is not None
        check_trace(trace)
        check_file(trace)
        (sweep,) = trace.sweeps
        (m,) = sweep.messages
        check_terms(trace, sweep, m)
        assert trace.nodes[m.target].label == finding.input
        c: Any = m.certificate
        assert (c.verdict, c.slip) == ("differs", finding.title)
        assert (np.abs(np.asarray(m.contribution) - c.elements) > c.bounds).any()
        assert finding.correction is not None
        assert c.after == finding.correction.after.strip()
        (text,) = trace.lines.values()
        assert finding.place is not None and text == finding.place.text


@needs_chromium
def test_findings_open_in_the_player(browser: Any, report: Report, tmp_path: Path):
    (tmp_path / "report.html").write_text(report.to_html(), encoding="utf-8")
    url = (tmp_path / "report.html").as_uri()
    with opened(browser, url, ready=".player") as page:
        assert page.locator(".player").count() == 1
        page.locator("details.play > summary").nth(1).click()
        page.locator(".player").nth(1).wait_for()
        for i, finding in enumerate(report.findings):
            player = page.locator(".player").nth(i)
            player.locator(".card.wrong").wait_for()
            assert finding.title in player.locator(".findings").inner_text()
            assert finding.correction is not None
            for line in finding.correction.after.split("\n"):
                assert line.strip() in player.locator(".diff").inner_text()
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
