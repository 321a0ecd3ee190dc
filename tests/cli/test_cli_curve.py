"""The loss curve: smoothing, axes, terminal, SVG; the progress of a run."""

from __future__ import annotations

import io
import itertools
import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chainrule.cli.progress import Bar, Lines, Recent, progress
from chainrule.page.curve import Curve, smoothed, terminal, ticks
from chainrule.page.curve_svg import smooth_path, svg

FALLING = [2 + math.exp(-i / 30) + 0.1 * math.sin(7 * i) for i in range(400)]
CURVE = Curve(FALLING, [(100, 2.2), (200, 2.1), (400, 2.05)], "a <title>", "& more")
SVG = "{http://www.w3.org/2000/svg}"


# --- smoothing and ticks


def test_smoothing_keeps_a_constant_and_a_line():
    assert smoothed([3.0] * 9, 2) == [3.0] * 9
    line = [2.0 * i for i in range(20)]
    assert smoothed(line, 3)[:14] == pytest.approx(line[:14])


def test_smoothing_takes_noise_away_and_keeps_the_course():
    smooth = CURVE.smooth
    assert len(smooth) == len(FALLING) and smooth[0] == FALLING[0]
    course = [2 + math.exp(-i / 30) for i in range(400)]
    error = max(abs(a - b) for a, b in zip(smooth[20:-20], course[20:-20], strict=True))
    noise = max(abs(a - b) for a, b in zip(FALLING, course, strict=True))
    assert error < noise / 4


@given(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3), st.integers(2, 9))
def test_ticks_are_round_inside_and_about_as_many_as_asked(low: float, size: float, count: int):
    high = low + size
    found = ticks(low, high, count)
    assert all(low - 1e-6 <= t <= high + 1e-6 for t in found)
    assert len(found) <= count + 1
    steps = [b - a for a, b in itertools.pairwise(found)]
    if steps:
        mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0] * 1.0000001))
        assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-3
        assert steps == pytest.approx([steps[0]] * len(steps), rel=1e-3)


# --- in the terminal


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [40, 76])
def test_terminal_fits_and_shows_axes_and_held_out(unicode: bool, width: int):
    text = terminal(CURVE, width=width, height=10, unicode=unicode)
    lines = text.split("\n")
    assert len(lines) == 13 and max(map(len, lines)) <= max(width, 60)
    assert sum(line.count("o") for line in lines[:10]) == 3
    assert text.isascii() is not unicode
    assert lines[11].split() == ["1", "400"] and "nats per token" in lines[12]
    labels = [float(line[:6]) for line in lines[:10] if line[:6].strip()]
    assert labels == sorted(labels, reverse=True) and len(labels) >= 2


def test_terminal_draws_the_fall():
    text = terminal(Curve(FALLING, [], "", ""), unicode=False)
    rows = [line[8:] for line in text.split("\n")[:12]]
    assert rows[0].startswith("*") and rows[-1].rstrip().endswith("*")
    columns = [min(i for i, row in enumerate(rows) if row[x : x + 1] == "*") for x in range(60)]
    assert columns[0] == 0 and columns[-1] >= 9


# --- as SVG


def test_svg_is_well_formed_and_says_what_it_shows():
    root = ET.fromstring(svg(CURVE))
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert {"a <title>", "& more", "step", "loss (nats per token)", "held-out 2.050"} <= set(texts)
    assert root.find(f"{SVG}title") is not None and root.get("role") == "img"
    assert len(root.findall(f".//{SVG}circle")) == 3
    assert "prefers-color-scheme: dark" in svg(CURVE)


def test_svg_stays_on_the_page_and_follows_the_losses():
    root = ET.fromstring(svg(CURVE))
    paths = {p.get("class"): p.get("d", "") for p in reversed(root.findall(f".//{SVG}path"))}
    numbers = [float(x) for d in paths.values() for x in re.findall(r"-?[\d.]+", d)]
    assert min(numbers) >= 0 and max(numbers) <= 760
    ends = re.findall(r" ([\d.]+) ([\d.]+)(?=C|$)", paths["line"])
    heights = [float(y) for _, y in ends]
    assert heights[0] < heights[60] < heights[-1]  # y grows downwards: the loss falls


def test_outliers_do_not_flatten_the_picture():
    spiky = [*FALLING[:200], 50.0, *FALLING[200:]]
    assert Curve(spiky, [], "", "").span[1] < 5


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_curve_of_few_steps_is_drawn(n: int):
    curve = Curve(FALLING[:n], [(n, 2.5)], "t", "s")
    ET.fromstring(svg(curve))
    assert "o" in terminal(curve)


def test_the_path_goes_through_the_points_and_does_not_overshoot():
    points = [(0.0, 5.0), (1.0, 1.0), (2.0, 1.0), (3.0, 4.0), (5.0, 3.0)]
    d = smooth_path(points)
    pieces = [[float(x) for x in p.replace("M", "").split()] for p in d.split("C")]
    assert [tuple(p[-2:]) for p in pieces] == points
    for p, (a, b) in zip(pieces[1:], itertools.pairwise([y for _, y in points]), strict=True):
        assert min(a, b) <= min(p[1], p[3]) and max(p[1], p[3]) <= max(a, b)


# --- progress


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=90, _environ={})


def shown(kind: type[Bar | Lines], steps: int) -> str:
    c = console(kind is Bar)
    with kind(c, 0, steps) as p:
        for i in range(1, steps + 1):
            p.step(i, 3.0 - i / steps, 2.5 if i == steps else None)
    assert isinstance(c.file, io.StringIO)
    return c.file.getvalue()


def test_lines_are_few_plain_and_end_with_the_last_step():
    lines = shown(Lines, 1000).splitlines()
    assert 15 <= len(lines) <= 25 and "\x1b" not in "".join(lines)
    assert "step      1/1000" in lines[0] and "held-out 2.5000" in lines[-1]
    assert all(re.search(r"loss \d\.\d+ .* steps/s .* s left", line) for line in lines)


def test_every_step_of_a_short_run_has_a_line():
    assert len(shown(Lines, 7).splitlines()) == 7


def test_the_bar_shows_loss_speed_and_time():
    text = shown(Bar, 30)
    assert "30/30" in text and "steps/s" in text and "held-out 2.500" in text and "left" in text


def test_a_bar_only_where_somebody_watches():
    assert isinstance(progress(console(True), 0, 5), Bar)
    assert isinstance(progress(console(False), 0, 5), Lines)


def test_the_recent_loss_is_a_mean_that_forgets():
    recent = Recent()
    recent.add(4.0)
    assert recent.loss == 4.0
    recent.add(2.0)
    assert recent.loss == pytest.approx(3.0, abs=0.02)
    for _ in range(500):
        recent.add(1.0)
    assert recent.loss == pytest.approx(1.0, abs=1e-3)
