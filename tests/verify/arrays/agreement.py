"""Whether a backward agrees with differences, and arrays to try it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from chainrule.verify.subject import Subject, values
from tests.ops.sample import apart

X, W, B = apart(3, 4), apart(4, 5, salt=1), apart(5, salt=2)


def line_of(text: str, file: str) -> int:
    """The line of a file that begins with `text`."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))


def agrees(subject: Subject) -> bool:
    """Whether the backward agrees with differences, and with what is derived from the forward."""
    xs = list(values(subject))
    gs = [apart(*y.shape, salt=9) for y in subject.forward(xs)]
    bars = subject.pull(xs, gs)
    derived = subject.derived(xs, gs)
    assert derived is not None
    for i, x in enumerate(subject.inputs):
        if x.wanted:
            t = apart(*x.value.shape, salt=11)
            want = _slope(subject, xs, i, t, gs)
            for bar in (bars[i], derived[i]):
                assert bar is not None and bar.shape == x.value.shape
                if abs(float(np.vdot(bar, t)) - want) > 1e-6 * (1 + abs(want)):
                    return False
    return True


def _slope(subject: Subject, xs: list[Any], i: int, t: Any, gs: list[Any]) -> float:
    ends: list[float] = []
    for h in (1e-6, -1e-6):
        moved = list(xs)
        moved[i] = xs[i] + h * t
        ends.append(
            sum(float(np.vdot(g, y)) for g, y in zip(gs, subject.forward(moved), strict=True))
        )
    return (ends[0] - ends[1]) / 2e-6
