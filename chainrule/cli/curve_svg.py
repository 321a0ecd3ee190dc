"""The loss curve as an SVG picture.

The loss of each step is a cloud, its smoothed course a line; the held-out loss has its own line and
a dot wherever it was measured. Colours follow the reader's light or dark setting.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import final

from chainrule.cli.curve import Curve, Point, ticks

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 28, 84, 60

_STYLE = """
.curve { --ink: #1f2430; --soft: #6b7280; --rule: #e5e7eb; --paper: #ffffff;
         --line: #2563eb; --held: #d9480f;
         font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 13px; }
@media (prefers-color-scheme: dark) {
  .curve { --ink: #e6e8ee; --soft: #9aa3b2; --rule: #2c3240; --paper: #14171f;
           --line: #7aa2ff; --held: #ff9e64; } }
.curve .paper { fill: var(--paper); }
.curve text { fill: var(--soft); font-variant-numeric: tabular-nums; }
.curve .title { fill: var(--ink); font-size: 18px; font-weight: 600; }
.curve .rule { stroke: var(--rule); stroke-width: 1; }
.curve .axis { stroke: var(--soft); stroke-width: 1; }
.curve .cloud { fill: var(--line); fill-opacity: 0.16; }
.curve .line { fill: none; stroke: var(--line); stroke-width: 2.25;
               stroke-linejoin: round; stroke-linecap: round; }
.curve .held { fill: none; stroke: var(--held); stroke-width: 1.75; stroke-dasharray: 5 4; }
.curve .dot { fill: var(--held); stroke: var(--paper); stroke-width: 1.5; }
.curve .key { fill: var(--ink); }
"""


def svg(curve: Curve) -> str:
    """The curve as one SVG document, readable on light and on dark."""
    frame = _Frame(curve)
    text = html.escape
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="t d">',
        f'<title id="t">{text(curve.title)}</title><desc id="d">{text(curve.subtitle)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        f'<text class="title" x="{LEFT}" y="34">{text(curve.title)}</text>',
        f'<text x="{LEFT}" y="56">{text(curve.subtitle)}</text>',
        *frame.axes(),
        *frame.course(),
        *frame.legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


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
            out.append(f'<line class="rule" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            out.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{loss:g}</text>')
        out.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{base}" y2="{base}"/>')
        for step in [s for s in ticks(1, self.last, 6) if s == int(s) and s >= 1]:
            x = self.x(step)
            out.append(
                f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{base}" y2="{base + 5}"/>'
                f'<text x="{x:.1f}" y="{base + 21}" text-anchor="middle">{step:,.0f}</text>'
            )
        middle = (LEFT + right) / 2
        out.append(f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">step</text>')
        out.append(
            f'<text transform="translate(18 {(TOP + base) / 2}) rotate(-90)" text-anchor="middle">'
            "loss (nats per token)</text>"
        )
        return out

    def course(self) -> list[str]:
        """The cloud, the smoothed line, the held-out line with its points."""
        smooth = [(self.x(i + 1), self.y(y)) for i, y in enumerate(self.curve.smooth)]
        held = [(self.x(step), self.y(loss)) for step, loss in self.curve.held_out]
        dots = [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in held]
        return [
            f'<path class="cloud" d="{self._cloud()}"/>',
            f'<path class="line" d="{smooth_path(_thinned(smooth, 240))}"/>',
            *([f'<path class="held" d="{smooth_path(held)}"/>'] if len(held) > 1 else []),
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
            out.append(f'<path class="{kind}" d="M{x} {y - 4}h28"/>')
            out.append(f'<text class="key" x="{x + 38}" y="{y}">{label}</text>')
        return out


def _thinned(points: Sequence[Point], most: int) -> list[Point]:
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
