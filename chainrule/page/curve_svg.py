"""The loss curve as an SVG picture.

The loss of each step is a cloud, its smoothed course a line; the held-out loss has its own line and
a dot wherever it was measured. Every viewer draws it, a browser in the reader's light or dark
colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import final

from chainrule.page.curve import Curve, Point, ticks
from chainrule.page.svg import Looks, Svg, document

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 28, 84, 60

_LINE = {"fill": "none", "stroke-linejoin": "round", "stroke-linecap": "round"}
LOOKS = Looks(
    "chainrule-curve",
    {
        "paper": {"fill": "ground"},
        "label": {"fill": "soft", "font-size": 13},
        "key": {"fill": "ink"},
        "title": {"fill": "ink", "font-size": 18, "font-weight": "bold"},
        "rule": {"stroke": "rule", "stroke-width": 1},
        "axis": {"stroke": "soft", "stroke-width": 1},
        "cloud": {"fill": "accent", "fill-opacity": 0.16},
        "line": {**_LINE, "stroke": "accent", "stroke-width": 2.25},
        "held": {**_LINE, "stroke": "contrast", "stroke-width": 1.75, "stroke-dasharray": "5 4"},
        "dot": {"fill": "contrast", "stroke": "ground", "stroke-width": 1.5},
    },
)


def svg(curve: Curve) -> Svg:
    """The curve as one SVG document, readable on light and on dark."""
    frame = _Frame(curve)
    body = [
        f'<rect {LOOKS.attributes("paper")} width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        _text(curve.title, LEFT, 34, "title"),
        _text(curve.subtitle, LEFT, 56),
        *frame.axes(),
        *frame.course(),
        *frame.legend(),
    ]
    return document(body, LOOKS, str(WIDTH), str(HEIGHT), curve.title, curve.subtitle)


def _text(
    text: str, x: float, y: float, *styles: str, anchor: str = "start", turn: str = ""
) -> str:
    """A text at a place; `turn` is a transformation of it."""
    turned = f' transform="{turn}"' if turn else ""
    at = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"{turned}'
    return f"<text {LOOKS.attributes('label', *styles)} {at}>{escape(text)}</text>"


def _rule(kind: str, a: Point, b: Point) -> str:
    """A straight line of a kind."""
    ends = f'x1="{a[0]:.1f}" y1="{a[1]:.1f}" x2="{b[0]:.1f}" y2="{b[1]:.1f}"'
    return f"<line {LOOKS.attributes(kind)} {ends}/>"


@final
class _Frame:
    """Places steps and losses on the page."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        low, high = curve.span
        margin = 0.04 * (high - low)
        self.low, self.high = low - margin, high + margin
        self.last = max(len(curve.losses), 2)

    def x(self, step: float) -> float:
        return LEFT + (step - 1) / (self.last - 1) * (WIDTH - LEFT - RIGHT)

    def y(self, loss: float) -> float:
        inside = min(max(loss, self.low), self.high)
        return TOP + (self.high - inside) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        """Rules with their losses, the axis with its steps, the units."""
        right, base = WIDTH - RIGHT, HEIGHT - BOTTOM
        out: list[str] = []
        for loss in ticks(self.low, self.high, 5):
            y = self.y(loss)
            out.append(_rule("rule", (LEFT, y), (right, y)))
            out.append(_text(f"{loss:g}", LEFT - 10, round(y + 4, 1), anchor="end"))
        out.append(_rule("axis", (LEFT, base), (right, base)))
        for step in [s for s in ticks(1, self.last, 6) if s == int(s) and s >= 1]:
            x = round(self.x(step), 1)
            out.append(_rule("axis", (x, base), (x, base + 5)))
            out.append(_text(f"{step:,.0f}", x, base + 21, anchor="middle"))
        out.append(_text("step", (LEFT + right) / 2, HEIGHT - 14, anchor="middle"))
        turn = f"translate(18 {(TOP + base) / 2}) rotate(-90)"
        curve = self.curve
        what = f"{curve.what} ({curve.unit})" if curve.unit else curve.what
        out.append(_text(what, 0, 0, anchor="middle", turn=turn))
        return out

    def course(self) -> list[str]:
        """The cloud, the smoothed line, the held-out line with its points."""
        smooth = [(self.x(i + 1), self.y(y)) for i, y in enumerate(self.curve.smooth)]
        held = [(self.x(step), self.y(loss)) for step, loss in self.curve.held_out]
        dot = LOOKS.attributes("dot")
        dots = [f'<circle {dot} cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in held]
        return [
            _path("cloud", self._cloud()),
            _path("line", smooth_path(_thin(smooth, 240))),
            *([_path("held", smooth_path(held))] if len(held) > 1 else []),
            *dots,
        ]

    def _cloud(self) -> str:
        """The range of the losses around each place, as one closed path."""
        n = len(self.curve.losses)
        size = max(1, n // 160)
        bins = [(i, self.curve.losses[i : i + size]) for i in range(0, n, size)]
        top = [(self.x(i + (len(b) + 1) / 2), self.y(max(b))) for i, b in bins]
        bottom = [(self.x(i + (len(b) + 1) / 2), self.y(min(b))) for i, b in bins]
        return smooth_path(top) + smooth_path(bottom[::-1]).replace("M", "L", 1) + "Z"

    def legend(self) -> list[str]:
        """What the two lines are, right of the title."""
        keys = [("line", f"training {self.curve.smooth[-1]:.3f}")]
        if self.curve.held_out:
            keys.append(("held", f"held-out {self.curve.held_out[-1][1]:.3f}"))
        out: list[str] = []
        for i, (kind, label) in enumerate(keys):
            x, y = WIDTH - RIGHT - 158, 30 + 22 * i
            out.append(_path(kind, f"M{x} {y - 4}h28"))
            out.append(_text(label, x + 38, y, "key"))
        return out


def _path(kind: str, d: str) -> str:
    return f'<path {LOOKS.attributes(kind)} d="{d}"/>'


def _thin(points: Sequence[Point], most: int) -> list[Point]:
    """At most about `most` of the points, the first and the last among them."""
    step = max(1, math.ceil((len(points) - 1) / most))
    return [*points[:-1:step], points[-1]]


def smooth_path(points: Sequence[Point]) -> str:
    """An SVG path through the points, as cubic curves that do not overshoot.

    Slopes: Fritsch & Butland 1984, SIAM J. Sci. Stat. Comput. 5(2), the harmonic mean of the two
    neighbouring slopes, 0 at extremes.
    """
    slopes = [(q[1] - p[1]) / (q[0] - p[0]) if q[0] != p[0] else 0.0 for p, q in pairwise(points)]
    if not slopes:
        return f"M{points[0][0]:.1f} {points[0][1]:.1f}" if points else ""
    inner = [2 * a * b / (a + b) if a * b > 0 else 0.0 for a, b in pairwise(slopes)]
    at = [slopes[0], *inner, slopes[-1]]
    out = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x0, y0), (x1, y1), m0, m1 in zip(points, points[1:], at, at[1:], strict=False):
        third = (x1 - x0) / 3
        out.append(
            f"C{x0 + third:.1f} {y0 + m0 * third:.1f} {x1 - third:.1f} {y1 - m1 * third:.1f} "
            f"{x1:.1f} {y1:.1f}"
        )
    return "".join(out)
