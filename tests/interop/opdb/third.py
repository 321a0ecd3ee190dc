"""A third opinion where the two libraries differ: derivatives from values, by extrapolation.

PyTorch's own answer of one order less (its values for a gradient or a jvp, its gradient for a
second order) is differentiated numerically along a direction. Who differs from that is wrong.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import chainrule as cr
from chainrule.ops.complex import real
from tests.interop.opdb.harness import size
from tests.interop.opdb.questions import Asked, ask, inner, smooth, their_jvp
from tests.interop.opdb.translate import array
from tests.ops.sample import Array

EPS = float(np.finfo(np.float64).eps)


class Verdict(enum.Enum):
    """Whose answer the third opinion is."""

    OURS = "ours is right"
    THEIRS = "PyTorch's is right"
    BOTH = "the difference is below what numbers can tell"
    NEITHER = "neither"


def slope(h: Callable[[float], float], scale: float) -> tuple[float, float]:
    """The derivative of `h` at 0 and an estimate of its error.

    Central differences with shrinking steps, extrapolated to step 0 (Ridders 1982,
    doi:10.1016/S0141-1195(82)80057-0); `scale` is a step over which h changes smoothly.
    """
    shrink = 1.6
    table: list[list[float]] = []
    best, error = np.nan, np.inf
    for i in range(14):
        step = scale / shrink**i
        high, low = h(step), h(-step)
        rounding = EPS * max(abs(high), abs(low)) / step
        row = [(high - low) / (2 * step)]
        for j in range(1, i + 1):
            factor = shrink ** (2 * j)
            row.append((factor * row[j - 1] - table[-1][j - 1]) / (factor - 1))
            guess = max(abs(row[j] - row[j - 1]), abs(row[j] - table[-1][j - 1])) + 4 * rounding
            if guess < error:
                best, error = row[j], guess
        table.append(row)
    return best, error


def _at(asked: Asked, direction: Sequence[Array], by: float) -> Asked:
    """PyTorch's op at arguments moved along a direction, with the same cotangents."""
    moved = [x + by * d for x, d in zip(asked.case.xs, direction, strict=True)]
    xs = [torch.from_numpy(x).requires_grad_() for x in moved]
    there = Asked(asked.case, xs, asked.case.theirs(*xs))
    there.__dict__["gs"], there.__dict__["us"] = asked.gs, asked.us
    return there


def _total(asked: Asked) -> float:
    """Re <g, y>."""
    ys = [array(asked.ys[i]) for i in asked.smooth]
    return float(sum(np.vdot(g, y).real for g, y in zip(asked.gs, ys, strict=True)))


def _paired(bars: Sequence[Any], us: Sequence[Array]) -> float:
    return float(sum(np.vdot(u, b).real for b, u in zip(bars, us, strict=True)))


def first_order(asked: Asked, u: Sequence[Array], scale: float) -> tuple[float, float]:
    """The derivative of Re <g, y> along u, from PyTorch's values."""
    return slope(lambda s: _total(_at(asked, u, s)), scale)


def second_order(asked: Asked, w: Sequence[Array], scale: float) -> tuple[float, float]:
    """The derivative of Re <u, vjp g> along w, from PyTorch's gradients."""

    def h(by: float) -> float:
        there = _at(asked, w, by)
        return _paired([array(b) for b in there.pull()], asked.us)

    return slope(h, scale)


def _answers(question: str, asked: Asked, w: Sequence[Array]) -> tuple[float, float]:
    """Both libraries' answers to the question, as one number: along w, or paired with g."""
    xs = [cr.tensor(x) for x in asked.case.xs]
    gs = [cr.tensor(g) for g in asked.gs]
    f = smooth(asked)
    if question == "gradient":
        mine = [b.numpy() for b in cr.vjp(f, *xs)[1](gs)]
        return _paired(mine, w), _paired([array(b) for b in asked.pull()], w)
    if question == "forward":
        dots = [d.numpy() for d in cr.jvp(f, xs, [cr.tensor(u) for u in asked.us])[1]]
        return _paired(dots, asked.gs), _paired([array(d) for d in their_jvp(asked)], asked.gs)

    def first(*inputs: Any) -> Any:
        bars = cr.vjp(f, *inputs)[1](gs)
        return sum(
            cr.sum(real(b * cr.tensor(np.conj(u)))) for b, u in zip(bars, asked.us, strict=True)
        )

    mine = [b.numpy() for b in cr.vjp(first, *xs)[1](cr.tensor(np.float64(1)))]
    product = inner(asked.pull(create_graph=True), asked.us)
    bars = torch.autograd.grad(product, asked.xs, allow_unused=True)
    theirs = [
        np.zeros(x.shape) if b is None else array(b)
        for b, x in zip(bars, asked.case.xs, strict=True)
    ]
    return _paired(mine, w), _paired(theirs, w)


def verdict(question: str, asked: Asked) -> Verdict:
    """Who is right about a difference that was found in the answers to `question`."""
    asked = ask(asked.case)
    w = (
        asked.us
        if question != "second"
        else [asked.case.random(x, 90 + i) for i, x in enumerate(asked.xs)]
    )
    mine, theirs = _answers(question, asked, w)
    scale = 0.02 * min(map(size, asked.case.xs), default=1.0)
    numeric = second_order if question == "second" else first_order
    want, error = numeric(asked, w, min(scale, 0.1))
    near = max(3 * error, 1e-11 * abs(want))
    ours_fits, theirs_fits = abs(mine - want) <= near, abs(theirs - want) <= near
    if ours_fits and theirs_fits:
        return Verdict.BOTH
    if not near <= 1e-3 * max(1, abs(want)):  # no derivative there, or none that can be told
        return Verdict.NEITHER
    if ours_fits:
        return Verdict.OURS
    return Verdict.THEIRS if theirs_fits else Verdict.NEITHER
