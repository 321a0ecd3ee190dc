"""Both Jacobians of what failed, at a point as small as the failure allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chainrule.verify import sizes
from chainrule.verify.evidence import Jacobians, Trial
from chainrule.verify.noise import Base, based, typical
from chainrule.verify.numeric import slopes
from chainrule.verify.probes import probe
from chainrule.verify.run import Run, UnusableError, inexact, norm
from chainrule.verify.subject import Array

_LARGEST = 400
"""Elements of an input or output of which a whole Jacobian is made."""


def jacobians(run: Run, seen: Sequence[tuple[Base, tuple[int, ...]]]) -> None:
    """Build them for every input that is wrong at one of the points seen."""
    built: set[int] = set()
    for base, wrong in _small_first(run, seen):
        for k in wrong:
            if k not in built and _of_input(run, base, k):
                built.add(k)
    for base, wrong in seen:
        for k in wrong:
            if k not in built and _fits(base, k):
                _retract(run, base, k)


def _small_first(
    run: Run, seen: Sequence[tuple[Base, tuple[int, ...]]]
) -> list[tuple[Base, tuple[int, ...]]]:
    """Points at which something is wrong, a smaller version of the first one before all."""
    failed = [(b, w) for b, w in seen if w]
    if not failed:
        return []
    first, wrong = failed[0]
    small: list[tuple[Base, tuple[int, ...]]] = []
    if not run.subject.fixed:
        for point in sizes.smaller(run, first.point):
            try:
                base = based(run, point)
                still = tuple([k for k in probe(run, base, False).wrong if k in wrong])
            except Exception:
                continue
            if still:
                small.append((base, still))
            if set(still) == set(wrong):
                break
    return [*small, *failed]


def _fits(base: Base, k: int) -> bool:
    return base.xs[k].size <= _LARGEST and sum([y.size for y in base.ys]) <= _LARGEST


def _of_input(run: Run, base: Base, k: int) -> bool:
    """Whether the Jacobians by input k differ; kept if so."""
    if not _fits(base, k):
        return False
    numeric = _columns(run, base, k)
    differ = False
    for o, (y, dtype) in enumerate(zip(base.ys, base.dtypes, strict=True)):
        if not y.size or dtype.kind not in "fcV":
            continue
        analytic = _rows(run, base, k, o)
        if analytic is None:
            return False
        values, bounds = numeric[o]
        found = Jacobians(base.xs, k, o, analytic, values, bounds, y.shape, tuple(base.xs[k].shape))
        if _apart(found):
            run.evidence.jacobians.append(found)
            differ = True
    return differ


def _apart(j: Jacobians) -> bool:
    """Whether any element differs by more than differences and rounding explain."""
    size = np.maximum(np.abs(j.analytic), np.abs(j.numeric))
    around = np.maximum(size, 1e-3 * max(float(size.max(initial=0.0)), 0.0))
    return bool((np.abs(j.difference) > 8 * j.bound + 1e-6 * around).any())


def _columns(run: Run, base: Base, k: int) -> list[tuple[Array, Array]]:
    """For each output the numeric Jacobian and its bound: a column for each element of input k."""
    x: Array = base.xs[k]
    kind = np.complex128 if x.dtype.kind == "c" else np.float64
    complex_ = x.dtype.kind == "c" or any(y.dtype.kind == "c" for y in base.ys)
    values = [np.zeros((y.size, x.size), np.complex128 if complex_ else kind) for y in base.ys]
    bounds = [np.zeros((y.size, x.size)) for y in base.ys]
    own = typical(x)
    for j in range(x.size):
        t = np.zeros(x.size, kind)
        t[j] = size = 0.25 * own + 0.75 * abs(complex(x.reshape(-1)[j]))
        for o, s in enumerate(slopes(run, base, {k: t.reshape(x.shape)})):
            values[o][:, j] = s.value.reshape(-1) / size
            bounds[o][:, j] = s.bound.reshape(-1) / size
    return list(zip(values, bounds, strict=True))


def _rows(run: Run, base: Base, k: int, o: int) -> Array | None:
    """The analytic Jacobian of output o: a pull for each of its elements."""
    x, y = base.xs[k], base.ys[o]
    complex_ = x.dtype.kind == "c" or y.dtype.kind == "c"
    found = np.zeros((y.size, x.size), np.complex128 if complex_ else np.float64)
    for i in range(y.size):
        gs = [
            np.zeros(v.shape, d) if inexact(np.empty(0, d)) else np.zeros(v.shape)
            for v, d in zip(base.ys, base.dtypes, strict=True)
        ]
        gs[o].reshape(-1)[i] = 1
        try:
            bar = run.pull(base.xs, gs)[k]
        except Exception:
            return None
        if bar is None:
            continue
        if bar.shape != x.shape:
            return None
        found[i] = np.conj(bar.reshape(-1))
        if y.dtype.kind == "c" and x.dtype.kind != "c":
            gs[o].reshape(-1)[i] = 1j
            other = run.pull(base.xs, gs)[k]
            if other is not None:
                found[i] = found[i] + 1j * other.reshape(-1)
    return found


def _retract(run: Run, base: Base, k: int) -> None:
    """No single element of the Jacobian is wrong: what looked so was rounding."""
    trials: list[Trial] = run.evidence.trials
    for i, t in enumerate(trials):
        if t.point == base.point.name and t.input == k and t.verdict == "wrong":
            trials[i] = replace(t, verdict="unsure")


__all__ = ["UnusableError", "jacobians", "norm"]
