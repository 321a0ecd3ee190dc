"""The backward in the captured dtype against the subject's own float64 replay of the same values.

What rounding explains is measured on the replay: how far its gradients move when inputs and
cotangents are perturbed by as much as the dtype rounds; and it is at least the rounding of a
gradient of the natural size |g| |y| / |x|, below which terms have cancelled. What goes beyond
happens in this dtype only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.verify.evidence import Trial
from chainrule.verify.measure import cotangents
from chainrule.verify.measure.noise import Base, base_at
from chainrule.verify.measure.probes import probe
from chainrule.verify.measure.run import (
    LateError,
    Point,
    Run,
    UnusableError,
    epsilon,
    in_one_line,
    inexact,
    is_array,
    norm,
    rms,
)
from chainrule.verify.subject import Array, values

_SAMPLES = 4
_SAFETY = 16.0
_BLURRED = 0.3
_FEW_DIGITS = 2e-3
"""In float16: products of two such numbers have lost half of their digits."""


def compare(run: Run, base: Base) -> None:
    """Compare, and note a trial for each input."""
    xs = values(run.subject)
    eps = max([epsilon(np.asarray(xs[k]).dtype) for k in run.wanted], default=0.0)
    if eps <= float(np.finfo(np.float64).eps):
        return
    try:
        ys = run.raw(xs)
        off = _relative([_widen(y) for y in ys], base.ys)
        gs = _round(cotangents.random(run, base), ys)
        low = run.pull(xs, gs)
    except LateError:
        raise
    except Exception as error:
        run.skip("the captured dtype", in_one_line(error))
        return
    exact = [g.astype(d) for g, d in zip(gs, base.dtypes, strict=True)]
    high = run.pull(base.xs, exact)
    moves = [_pull_perturbed(run, base, exact, eps) for _ in range(_SAMPLES)]
    half = eps == float(np.finfo(np.float16).eps)
    if half and any(_is_small(v) for v in (*ys, *xs, *low)):
        run.skip("float16", "its smallest numbers are too large for these values")
        return
    sent = sum([norm(g) * rms(y) for g, y in zip(exact, base.ys, strict=True)])
    for k in run.wanted:
        if off < _BLURRED and _note_nan(run, k, ys, (low[k], high[k]), [m[k] for m in moves]):
            continue
        if not rms(base.xs[k]):
            continue  # zeros have no digits to lose
        floor = 16 * eps * sent / rms(base.xs[k])
        _judge(run, k, eps, off, floor, (low[k], high[k]), [m[k] for m in moves])


def _round(gs: Sequence[Array], ys: Sequence[Array]) -> list[Array]:
    return [g.astype(y.dtype) if inexact(y) else g for g, y in zip(gs, ys, strict=True)]


def _pull_perturbed(
    run: Run, base: Base, gs: Sequence[Array], eps: float
) -> tuple[Array | None, ...]:
    xs = [_jitter(run, x, eps) if k in run.wanted else x for k, x in enumerate(base.xs)]
    return run.pull(xs, [_jitter(run, g, eps) for g in gs])


def _jitter(run: Run, x: Any, eps: float) -> Any:
    if not inexact(x):
        return x
    return np.asarray(x * (1 + eps * run.rng.uniform(-1, 1, x.shape)), x.dtype)


def _note_nan(
    run: Run,
    k: int,
    ys: Sequence[Array],
    bars: tuple[Array | None, Array | None],
    moves: Sequence[Array | None],
) -> bool:
    """Whether the gradient is NaN in the dtype where float64, and what is near, gives numbers.

    Infinities are what numbers that are too large become; they are not looked at.
    """
    low, high = bars
    if low is None or high is None or low.shape != high.shape:
        return False
    bad = np.isnan(low)
    finite = [high, *[m for m in moves if m is not None], *[_widen(y) for y in ys]]
    if not bad.any() or not all(np.isfinite(v).all() for v in finite):
        return False
    name = np.asarray(run.subject.inputs[k].value).dtype.name
    count = int(bad.sum())
    run.note(Trial(name, "random", k, 1.0, 0.0, "wrong"))
    says = f"in {name} {count} of {bad.size} elements are NaN; in float64 all are finite"
    run.behaves("nan", k, says, count=count, point=name)
    return True


def _judge(
    run: Run,
    k: int,
    eps: float,
    off: float,
    floor: float,
    bars: tuple[Array | None, Array | None],
    moves: Sequence[Array | None],
) -> None:
    """Note how many digits of gradient `k` are lost beside what its dtype must lose."""
    low, high = bars
    if low is None or high is None or low.shape != high.shape:
        return
    name = np.asarray(run.subject.inputs[k].value).dtype.name
    size = norm(high)
    if not np.isfinite(size) or size == 0 or not np.isfinite(low).all():
        verdict = "unsure" if size or norm(np.nan_to_num(low)) else "right"
        run.note(Trial(name, "random", k, 0.0, 1.0, verdict))
        return
    moved = max([norm(m - high) / size for m in moves if m is not None], default=0.0)
    growth = 1 + np.log2(1 + max(high.size, *[y.size for y in _outputs(run)]))
    tolerance = float(_SAFETY * (moved + off) + 2 * eps * growth + floor / size)
    error = norm(low - high) / size
    if tolerance > _BLURRED:
        run.note(Trial(name, "random", k, error, tolerance, "unsure"))
        return
    verdict = (
        "wrong" if error > tolerance and not _is_right_in_its_dtype(run, k, error) else "right"
    )
    run.note(Trial(name, "random", k, error, tolerance, verdict))
    if verdict == "wrong":
        factor = float((np.vdot(high, low) / np.vdot(high, high)).real)
        says = f"in {name} off by {error:.2g} of its size; rounding explains {tolerance:.2g}"
        run.behaves(
            "precision", k, says, dtype=name, error=error, tolerance=tolerance, factor=factor
        )


def _is_right_in_its_dtype(run: Run, k: int, error: float) -> bool:
    """Whether differences in the captured dtype itself say that the backward is right in it.

    Then the forward is another function in this dtype: an epsilon that depends on it, say.
    """
    try:
        base = base_at(run, Point("in its own dtype", values(run.subject), "dtype"))
        trials = probe(run, base, False).trials
    except UnusableError:
        return False
    return any(t.input == k and t.verdict == "right" and t.tolerance < error / 10 for t in trials)


def _outputs(run: Run) -> list[Array]:
    return [x.value for x in run.subject.inputs if is_array(x.value)]


def _is_small(x: Any) -> bool:
    """Whether many elements of x are near the smallest numbers of float16, where digits are lost.

    Other dtypes go so far down that nothing is lost.
    """
    if not inexact(x):
        return False
    used = np.abs(x[x != 0])
    return bool(used.size and np.quantile(used, 0.1) < _FEW_DIGITS)


def _relative(low: Sequence[Array], high: Sequence[Array]) -> float:
    """How far the forward's own results are off in the dtype."""
    worst = 0.0
    for a, b in zip(low, high, strict=True):
        if a.shape == b.shape and b.size:
            fine = np.isfinite(a) & np.isfinite(b)
            size = norm(b[fine])
            worst = max(worst, norm(a[fine] - b[fine]) / size if size else 0.0)
    return worst


def _widen(y: Array) -> Array:
    if not inexact(y):
        return np.zeros(y.shape)
    return y.astype(np.complex128 if y.dtype.kind == "c" else np.float64)
