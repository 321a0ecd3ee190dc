"""What can be told of a backward without differences: by comparing it with itself.

A correct one is linear in its cotangent, blind to memory layout, the same when run twice, returns
arrays of its inputs' shapes and leaves alone what is not its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.verify.measure import cotangents
from chainrule.verify.measure.noise import Base, computing_epsilon, pull_noise
from chainrule.verify.measure.run import BackwardError, Bars, Run, UnusableError, is_array, norm
from chainrule.verify.subject import Array, Subject
from chainrule.verify.tolerances import LOOSE
from chainrule.verify.user_frames import raised_at


def check_runs(run: Run, base: Base) -> bool:
    """Whether the backward runs at all; says what it does wrong, shapes included."""
    gs = cotangents.random(run, base)
    kept = [g.copy() for g in gs]
    try:
        bars = run.pull(base.xs, gs)
    except BackwardError as error:
        at = raised_at(error.__cause__)
        run.behaves("raises", None, f"the backward raises {error}", error=str(error), at=at)
        return False
    if len(bars) != len(run.subject.inputs):
        says = f"{len(bars)} gradients came back for {len(run.subject.inputs)} inputs"
        run.behaves("wrong_shape", None, says, count=len(bars))
        return False
    _note_writes(run, base, gs, kept)
    for k in run.wanted:
        _note_shape(run, base, k, bars[k])
    for k, got in run.subject.summed(base.xs, kept).items():
        says = f"the backward returns shape {got}; its engine sums that to {np.shape(base.xs[k])}"
        run.behaves("not_summed", k, says, got=got)
    return True


def _note_writes(run: Run, base: Base, gs: Sequence[Array], kept: Sequence[Array]) -> None:
    """Whether the pull just made, or another watched one, wrote into what is not its own."""
    names = [
        f"cotangent of output {o}"
        for o, (g, k) in enumerate(zip(gs, kept, strict=True))
        if not np.array_equal(g, k, equal_nan=True)
    ]
    run.evidence.evaluations += 1
    with np.errstate(all="ignore"):
        names += [n for n in run.subject.changes(base.xs, kept) if n not in names]
    if names:
        run.behaves("writes", None, f"writes into {', '.join(names)}", names=tuple(names))


def _note_shape(run: Run, base: Base, k: int, bar: Array | None) -> None:
    x = np.asarray(base.xs[k])
    if bar is not None and bar.shape != x.shape:
        says = f"the input has shape {x.shape}, its gradient {bar.shape}"
        run.behaves("wrong_shape", k, says, got=bar.shape, expected=x.shape)


def check_repeatable(run: Run, base: Base) -> bool:
    """Whether two pulls agree, with another pull elsewhere between them, and one whose forward and
    backward have another call between them."""
    gs = cotangents.random(run, base)
    first = run.pull(base.xs, gs)
    second = run.pull(base.xs, gs)
    if not _compare(run, "not_deterministic", first, second, "two runs differ"):
        return False
    other = other_values(run.subject, base.xs)
    try:
        run.pull(other, gs)
        between = run.interrupted(base.xs, other, gs)
    except UnusableError:
        return True  # no word on the point in between is asked for
    third = run.pull(base.xs, gs)
    says = "the result changes after the backward ran on other values"
    if not _compare(run, "stale", first, third, says):
        return False
    says = (
        "calls share what they keep: the result changes if another call, on other values, runs "
        "forward and backward before this one's backward does"
    )
    return between is None or _compare(run, "stale", first, between, says, interrupted=True)


def check_second_call(run: Run, base: Base) -> bool:
    """Whether a second call gives what a first one gave, though nothing was set back. Of a first
    one that is wrong this says nothing: what a call leaves may be what made it so."""
    gs = cotangents.random(run, base)
    first = run.pull(base.xs, gs)
    try:
        second = run.repeated(base.xs, gs)
    except UnusableError:
        return True  # who cannot run twice is found elsewhere
    says = "what one call leaves is added to the next one's: the second of two equal calls differs"
    return second is None or _compare(run, "not_reset", first, second, says)


def check_after_other_call(run: Run, base: Base) -> bool:
    """Whether a call gives what it gives by itself, though one on other values went before it."""
    gs = cotangents.random(run, base)
    other = other_values(run.subject, base.xs)
    first = run.pull(base.xs, gs)
    try:
        later = run.resumed(base.xs, other, gs)
    except UnusableError:
        return True  # of these other values the forward may not be meant
    says = "what a call on other values has kept is used again by the next one: its result changes"
    if later is None or all(distance(first[k], later[k]) <= LOOSE for k in run.wanted):
        return True
    return _compare(run, "stale", first, later, says, resumed=True)


def other_values(subject: Subject, xs: Sequence[Any]) -> tuple[Any, ...]:
    """Other values of the inputs: those of other elements, so that signs change too, where the
    forward takes that, and of the same ones where it does not. What is not wanted, a mask or noise,
    keeps its numbers."""

    def scaled(turn: int) -> tuple[Any, ...]:
        pairs = zip(subject.inputs, xs, strict=True)
        return tuple([_roll(x, turn, 1.25 if i.wanted else 1) for i, x in pairs])

    turned = scaled(1)
    try:
        ys = subject.forward(turned)
    except Exception:  # as the user's code raises it: of such values it is not meant
        return scaled(0)
    return turned if all(np.all(np.isfinite(np.asarray(y))) for y in ys) else scaled(0)


def _roll(x: Any, turn: int, by: float) -> Any:
    """An array with the numbers of other elements, times a number."""
    if not is_array(x):
        return x
    return np.asarray(np.roll(x, turn) * by, x.dtype) if turn or by != 1 else x


def _compare(run: Run, code: str, a: Bars, b: Bars, says: str, **data: Any) -> bool:
    same = True
    for k in run.wanted:
        error = distance(a[k], b[k])
        if error > max(LOOSE, 30 * computing_epsilon(_number(a[k]))):
            same = False
            says_ = f"{says}: by {error:.2g} of the gradient's size"
            run.behaves(code, k, says_, error=error, ratio=_ratio(a[k], b[k]), **data)
    return same


def check_linear(run: Run, base: Base) -> bool:
    """Whether B(0) = 0, B(2g) = 2 B(g), B(g + h) = B(g) + B(h)."""
    g, h = cotangents.random(run, base), cotangents.random(run, base)
    of_g = run.pull(base.xs, g)
    of_h = run.pull(base.xs, h)
    both = run.pull(base.xs, [a + b for a, b in zip(g, h, strict=True)])
    double = run.pull(base.xs, [2 * a for a in g])
    none = run.pull(base.xs, [np.zeros_like(a) for a in g])
    each = [
        _check_input_linear(run, base, g, k, of_g, of_h, both, double, none) for k in run.wanted
    ]
    return all(each)  # Every input is looked at, also after one that is not linear.


def _check_input_linear(
    run: Run,
    base: Base,
    g: Sequence[Array],
    k: int,
    of_g: Bars,
    of_h: Bars,
    both: Bars,
    double: Bars,
    none: Bars,
) -> bool:
    """Whether gradient `k` is linear in the cotangents; what it is instead is noted."""
    one, other = _number(of_g[k]), _number(of_h[k])
    wholes = _number(both[k]), _number(double[k]), _number(none[k])
    if any(w.shape != one.shape for w in (other, *wholes)):
        return True  # shapes are another matter
    zero = float(np.nan_to_num(norm(wholes[2]) / (norm(one) or 1.0)))
    errors = {
        "sum": distance(one + other, wholes[0]),
        "double": distance(2 * one, wholes[1]),
        "zero": zero,
    }
    bad = {name: e for name, e in errors.items() if e > LOOSE and e > 100 * _level(run, base, g, k)}
    if not bad:
        return True
    if distance(one, other) < 1e-6 and distance(one, wholes[1]) < 1e-6:
        says = "the gradient is the same for every cotangent"
        run.behaves("ignores_cotangent", k, says, **errors)
    else:
        said_ = {
            "sum": "B(g + h) differs from B(g) + B(h)",
            "double": "B(2g) differs from 2 B(g)",
            "zero": "B(0) is not 0, but",
        }
        says = "; ".join([f"{said_[name]} by {e:.2g} of its size" for name, e in bad.items()])
        run.behaves("not_linear", k, says, **errors)
    return False


def check_layouts(run: Run, base: Base) -> bool:
    """Whether cotangents of the same numbers give the same gradient, however they are stored."""
    gs = cotangents.random(run, base)
    plain = run.pull(base.xs, gs)
    sizes = [norm(_number(b)) for b in plain]
    same = [
        _check_layout(run, base, gs, plain, name, other, sizes)
        for name, other in cotangents.layouts(gs)
    ]
    wide = cotangents.expanded(run, base)
    if any(g.size > 1 for g in wide):
        copied = [np.array(g) for g in wide]
        plain = run.pull(base.xs, copied)
        same.append(
            _check_layout(run, base, copied, plain, "expanded (all strides 0)", wide, sizes)
        )
    return all(same)


def _check_layout(
    run: Run,
    base: Base,
    gs: Sequence[Array],
    plain: Bars,
    name: str,
    other: Sequence[Array],
    sizes: Sequence[float],
) -> bool:
    """`sizes`: of the gradients for cotangents of no pattern. One that is the same everywhere may
    sum to zero but for rounding, which is no size to compare with."""
    try:
        bars = run.pull(base.xs, other)
    except BackwardError as error:
        says = f"raises {error} for a cotangent {name}"
        run.behaves("contiguity", None, says, layout=name, error=str(error))
        return False
    same = True
    for k in run.wanted:
        error = distance(plain[k], bars[k], sizes[k])
        if error > LOOSE and error > 100 * _level(run, base, gs, k):
            same = False
            says = f"differs by {error:.2g} of its size when the cotangent is stored {name}"
            run.behaves("contiguity", k, says, layout=name, error=error)
    return same


def distance(a: Array | None, b: Array | None, least: float = 0.0) -> float:
    """How far two gradients are from each other, relative to the larger, or to `least` if that is
    larger still; NaNs count as equal."""
    left, right = _number(a), _number(b)
    if left.shape != right.shape:
        if left.size and right.size and norm(left) == 0 == norm(right):
            return 0.0
        return 1.0
    odd = ~(np.isfinite(left) | np.isfinite(right))
    left, right = np.where(odd, 0, left), np.where(odd, 0, right)
    with np.errstate(all="ignore"):
        scale = max(norm(left), norm(right), least)
        error = norm(left - right) / scale if scale else 0.0
    return error if np.isfinite(error) else 1.0


def _number(a: Array | None) -> Array:
    return np.zeros(()) if a is None else a


def _ratio(a: Array | None, b: Array | None) -> float:
    left, right = _number(a), _number(b)
    return norm(right) / norm(left) if norm(left) else 0.0


def _level(run: Run, base: Base, gs: Sequence[Array], k: int) -> float:
    """The backward's own noise, relative: asked only when something differs."""
    bars = run.pull(base.xs, gs)
    noise, bar = pull_noise(run, base, gs, bars)[k], bars[k]
    if noise is None or bar is None or not norm(bar):
        return 0.0
    return max(norm(noise) / norm(bar), computing_epsilon(bar))
