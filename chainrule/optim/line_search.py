"""A step length that satisfies the strong Wolfe conditions: bracket one, then zoom in on it.

Nocedal & Wright 2006, Numerical Optimization, algorithms 3.5 and 3.6, with cubic interpolation
(equation 3.59); the safeguards and their constants are those of minFunc (Schmidt 2005), which
PyTorch has, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from chainrule.engine.op import Array


class Point(NamedTuple):
    """What is known at the step length `at`: the loss, its gradient, its slope along the line."""

    at: float
    loss: float
    gradient: Array
    slope: float


@dataclass(frozen=True)
class Search:
    """A line from `start`, along which `look` evaluates the loss."""

    start: Point
    look: Callable[[float], Point]
    reach: float
    """The largest element of the direction."""
    most: int
    """How many evaluations there may be after the first."""
    tolerance: float
    """Brackets that are shorter than this are not divided."""
    decrease: float = 1e-4
    curvature: float = 0.9

    def run(self, at: float) -> tuple[Point, int]:
        """The point that was chosen, and how many evaluations it took."""
        before, point, count = self.start, self.look(at), 0
        while count < self.most:
            if not self._low_enough(point) or (count > 1 and point.loss >= before.loss):
                return self._zoom([before, point], count)
            if self._flat_enough(point):
                return point, count + 1
            if point.slope >= 0:
                return self._zoom([before, point], count)
            bounds = point.at + 0.01 * (point.at - before.at), 10 * point.at
            new = self.look(minimum(before, point, bounds))
            before, point, count = point, new, count + 1
        ends = [self.start, point]
        return ends[point.loss < self.start.loss], count + 1

    def _low_enough(self, point: Point) -> bool:
        limit = self.start.loss + self.decrease * point.at * self.start.slope
        return not point.loss > limit

    def _flat_enough(self, point: Point) -> bool:
        return abs(point.slope) <= -self.curvature * self.start.slope

    def _zoom(self, ends: list[Point], count: int) -> tuple[Point, int]:
        """The bracket between two ends becomes smaller, until a point in it will do."""
        stuck = False
        low = int(ends[1].loss < ends[0].loss)
        while count < self.most and abs(ends[1].at - ends[0].at) * self.reach >= self.tolerance:
            at, stuck = _inside(minimum(ends[0], ends[1]), ends, stuck)
            point, count = self.look(at), count + 1
            if not self._low_enough(point) or point.loss >= ends[low].loss:
                ends[1 - low] = point
                low = int(ends[1].loss < ends[0].loss)
                continue
            done = self._flat_enough(point)
            if not done and point.slope * (ends[1 - low].at - ends[low].at) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
            if done:
                break
        return ends[low], count + 1


def _inside(at: float, ends: list[Point], stuck: bool) -> tuple[float, bool]:
    """`at`, but away from the ends if it was near one the last time too, or is one."""
    low, high = sorted([ends[0].at, ends[1].at])
    margin = 0.1 * (high - low)
    if min(high - at, at - low) >= margin:
        return at, False
    if not (stuck or at >= high or at <= low):
        return at, True
    return (high - margin if abs(at - high) < abs(at - low) else low + margin), False


def minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through both points, with their slopes, is least, within the bounds."""
    left, right = (a, b) if a.at <= b.at else (b, a)
    low, high = bounds or (left.at, right.at)
    mean = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.at - b.at)
    square = mean * mean - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    root = math.sqrt(square)
    span = right.slope - left.slope + 2 * root
    if span == 0:
        return low
    at = right.at - (right.at - left.at) * ((right.slope + root - mean) / span)
    return min(max(at, low), high)
