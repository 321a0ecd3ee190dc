"""The loss curve: smoothed, with round numbers for its axes, drawn in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import final

Point = tuple[float, float]
"""A place: across, and down or up."""


@final
@dataclass(frozen=True)
class Curve:
    """What is drawn: `losses` of steps 1, 2, ..; `held_out` (step, loss); two lines of title; what
    the numbers are, with their unit."""

    losses: Sequence[float]
    held_out: Sequence[tuple[int, float]]
    title: str
    subtitle: str
    what: str = "loss"
    unit: str = "nats per token"

    @property
    def smooth(self) -> list[float]:
        """The losses smoothed over about a twenty-fifth of them."""
        return smoothed(self.losses, len(self.losses) // 50)

    @property
    def lines(self) -> tuple[float, float]:
        """The lowest and the highest loss of the two lines; never the same."""
        known = [*self.smooth, *[loss for _, loss in self.held_out]]
        low, high = min(known), max(known)
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    @property
    def span(self) -> tuple[float, float]:
        """The same of the lines and of the cloud, but for a hundredth of it on either side."""
        ranked = sorted(self.losses)
        cut = len(ranked) // 100
        low, high = self.lines
        return min(low, ranked[cut]), max(high, ranked[-1 - cut])


def smoothed(xs: Sequence[float], half: int) -> list[float]:
    """Each number as the mean of itself and the `half` before and after it, twice over.

    At the beginning, where a loss falls steeply, as few numbers are taken from after as there are
    before, so that the mean does not run ahead. At the end, where it is level, those before are
    enough.

    >>> smoothed([5.0, 1.0, 1.0, 1.0], 0)
    [5.0, 1.0, 1.0, 1.0]
    """
    for _ in range(2):
        sums = [0.0, *accumulate(xs)]
        ranges = [(max(i - half, 0), min(i + min(half, i) + 1, len(xs))) for i in range(len(xs))]
        xs = [(sums[b] - sums[a]) / (b - a) for a, b in ranges]
    return list(xs)


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers (1, 2 or 5 times a power of ten apart) from low to high.

    >>> ticks(1.9, 3.4, 4)
    [2.0, 2.5, 3.0]
    """
    rough = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a Braille character's dots, by row and column."""


def terminal(curve: Curve, *, width: int = 76, height: int = 12, unicode: bool = True) -> str:
    """The smoothed loss as lines of text at most `width` wide, drawn with dots of Braille letters.

    The held-out loss is drawn as `o`. Without `unicode` only ASCII is used.
    """
    low, high = curve.lines
    columns = width - 8
    losses = [(i + 1.0, y) for i, y in enumerate(curve.smooth)]
    last = max(len(curve.losses), 2)

    def to_pixels(point: Point, across: int, down: int) -> tuple[int, int]:
        x = (point[0] - 1) / (last - 1) * (across - 1)
        y = (high - min(max(point[1], low), high)) / (high - low) * (down - 1)
        return round(x), round(y)

    if unicode:
        grid = _braille([to_pixels(p, 2 * columns, 4 * height) for p in losses], columns, height)
    else:
        grid = _mark_grid([to_pixels(p, columns, height) for p in losses], columns, height, "*")
    for point in curve.held_out:
        x, y = to_pixels(point, columns, height)
        grid[y][x] = "o"
    side = _side(low, high, height)
    rows = [f"{label:>6} |{''.join(row).rstrip()}" for label, row in zip(side, grid, strict=True)]
    foot = f"{'1':<{columns - len(str(last))}}{last}"
    about = ", ".join([part for part in (curve.unit, "smoothed") if part])
    legend = f"{curve.what} ({about}) by step" + ("; o held-out" if curve.held_out else "")
    return "\n".join([*rows, " " * 7 + "+" + "-" * columns, " " * 8 + foot, " " * 8 + legend])


def _side(low: float, high: float, height: int) -> list[str]:
    """The axis's labels, by row."""
    labels = [""] * height
    for y in ticks(low, high, 4):
        labels[round((high - y) / (high - low) * (height - 1))] = f"{y:g}"
    return labels


def _mark_grid(
    points: Sequence[tuple[int, int]], columns: int, rows: int, mark: str
) -> list[list[str]]:
    grid = [[" "] * columns for _ in range(rows)]
    for x, y in _join_dots(points):
        grid[y][x] = mark
    return grid


def _braille(points: Sequence[tuple[int, int]], columns: int, rows: int) -> list[list[str]]:
    """Points of a grid of 2 x 4 dots a character, joined, as characters."""
    bits = [[0] * columns for _ in range(rows)]
    for x, y in _join_dots(points):
        bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
    return [[chr(0x2800 + b) if b else " " for b in row] for row in bits]


def _join_dots(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The points and, between neighbours, the dots of the straight line."""
    out = list(points[:1])
    for (x0, y0), (x1, y1) in pairwise(points):
        n = max(abs(x1 - x0), abs(y1 - y0))
        out += [
            (x0 + round((x1 - x0) * i / n), y0 + round((y1 - y0) * i / n)) for i in range(1, n + 1)
        ]
    return out
