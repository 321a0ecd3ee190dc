"""What failed, at a point as small as the failure allows; and no failure where no element fails.

Of a Jacobian that is too large a few elements are shown, found by halving what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from chainrule.verify.measure import cotangents, jacobian
from chainrule.verify.measure.jacobian import numeric
from chainrule.verify.measure.noise import Base, base_at, tangent
from chainrule.verify.measure.numeric import slopes
from chainrule.verify.measure.points import sizes
from chainrule.verify.measure.probes import probe
from chainrule.verify.measure.run import Run, inner
from chainrule.verify.subject import Array
from chainrule.verify.tolerances import SAME

Failed = tuple[Base, tuple[int, ...]]
"""A point, and the inputs whose gradient is wrong there."""

SECONDS = 10.0
"""A Jacobian that would take longer is shown in part."""

_OF_POINTS = ("size", "one_sided", "region")
"""Behaviours that compare points."""


def jacobians(run: Run, seen: Sequence[Failed]) -> None:
    """Build Jacobians for every input that is wrong at one of the points seen, the smallest first.

    Where no element of them differs, the failure was rounding, and is taken back.
    """
    failed = [(base, wrong) for base, wrong in seen if wrong]
    if not failed:
        return
    built: set[int] = set()
    for base, wrong in [*_smaller(run, failed[0]), *sorted(failed, key=_size)]:
        for k in wrong:
            if k not in built and _build(run, base, k):
                built.add(k)
    for base, wrong in failed:
        for k in wrong:
            if k not in built:
                _retract(run, base, k)


def _size(failed: Failed) -> int:
    base = failed[0]
    return sum([y.size for y in base.ys]) + sum([base.xs[k].size for k in failed[1]])


def _build(run: Run, base: Base, k: int) -> bool:
    """Whether the Jacobians by input k, or the parts that were looked at, differ; kept if so."""
    needed = 6 * base.xs[k].size + sum([y.size for y in base.ys])
    if jacobian.fits(base, k) and needed * run.pace < SECONDS:
        found = jacobian.all_jacobians(run, base, k)
    else:
        picked = elements(run, base, k)
        one = None if picked is None else jacobian.some_entries(run, base, k, *picked)
        found = [] if one is None else [one]
        if found:
            name = run.subject.inputs[k].name
            run.skip(f"most of the Jacobian by {name}", "too large: elements around a wrong one")
    run.evidence.jacobians.extend(found)
    return bool(found)


def _smaller(run: Run, failed: Failed) -> list[Failed]:
    """Small versions of a point at which the same is still wrong."""
    base, wrong = failed
    if run.subject.fixed:
        return []
    found: list[Failed] = []
    for point in sizes.smaller(run, base):
        try:
            small = base_at(run, point)
            still = tuple([k for k in probe(run, small, False).wrong if k in wrong])
        except Exception:
            continue  # there are other sizes
        if still and all(jacobian.fits(small, k) for k in still):
            found.append((small, still))
            if set(still) == set(wrong):
                break
    return found[::-1]


def _retract(run: Run, base: Base, k: int) -> None:
    """No element is wrong: what looked so was rounding, or a constant of seven digits."""
    name, evidence = base.point.name, run.evidence
    run.doubt(name, k, SAME)
    evidence.behaviours[:] = [
        b
        for b in evidence.behaviours
        if not (b.code in _OF_POINTS and b.input == k and b.data.get("point") == name)
    ]


_SHOWN = 24


def elements(run: Run, base: Base, k: int) -> tuple[int, Array, Array] | None:
    """An output, and elements of it and of input k among which some are wrong, and others.

    None if what the backward gives cannot be compared.
    """
    gs = cotangents.random(run, base)
    t = tangent(run.rng, base.xs[k])
    bar = run.pull(base.xs, gs)[k]
    if bar is None:
        bar = np.zeros(t.shape)
    if bar.shape != t.shape or not t.size:
        return None
    j = _halved(t.size, lambda part: _along(run, base, k, gs, bar, _only(t, part)))
    column = [values[:, 0] for values, _ in numeric(run, base, k, np.array([j]))]
    alone = [cotangents.one_output(gs, o) for o in range(len(gs))]
    errors = [_across(run, base, k, j, g, column) for g in alone]
    at = int(np.argmax(np.abs(errors)))

    def across(part: Array) -> float:
        some = [_only(g, part) if o == at else g for o, g in enumerate(alone[at])]
        return _across(run, base, k, j, some, column)

    i = _halved(base.ys[at].size, across)
    large = np.argsort(-np.abs(column[at]))[: _SHOWN // 3]
    rows = _among(run, i, base.ys[at].shape, large)
    return at, rows, _among(run, j, t.shape, np.empty(0, int))


def _halved(size: int, error: Callable[[Array], float]) -> int:
    """The element at the end of a walk that always takes the half with the larger error.

    Errors of parts add up to that of the whole, so that one half tells of the other.
    """
    part = np.arange(size)
    whole = error(part)
    while part.size > 1:
        first, second = part[: part.size // 2], part[part.size // 2 :]
        off = error(first)
        part, whole = (first, off) if abs(off) >= abs(whole - off) else (second, whole - off)
    return int(part[0])


def _along(run: Run, base: Base, k: int, gs: Sequence[Array], bar: Array, t: Array) -> float:
    """How far <g, J t> from the backward and from differences are apart."""
    along = slopes(run, base, {k: t})
    pairs = zip(gs, along, strict=True)
    return inner(bar, t) - sum([inner(np.where(s.resolved, g, 0), s.value) for g, s in pairs])


def _across(
    run: Run, base: Base, k: int, j: int, gs: Sequence[Array], column: Sequence[Array]
) -> float:
    """How wrong x_bar[j] is for cotangents gs."""
    bar = run.pull(base.xs, gs)[k]
    told = 0.0 if bar is None else float(bar.reshape(-1)[j].real)
    flat = [np.ascontiguousarray(g).reshape(-1) for g in gs]
    return told - sum([inner(g, c) for g, c in zip(flat, column, strict=True)])


def _only(x: Array, part: Array) -> Array:
    """x with zeros outside of a part (flat indices)."""
    kept = np.zeros(x.size, x.dtype)
    kept[part] = np.ascontiguousarray(x).reshape(-1)[part]
    return kept.reshape(x.shape)


def _among(run: Run, one: int, shape: tuple[int, ...], also: Array) -> Array:
    """Flat indices: the one, its neighbours along every axis, given ones, some at random."""
    size = int(np.prod(shape))
    at = np.unravel_index(one, shape)
    near: list[int] = [one]
    for axis, n in enumerate(shape):
        for m in range(min(n, 5)):
            place = tuple([m if a == axis else int(v) for a, v in enumerate(at)])
            near.append(int(np.ravel_multi_index(place, shape)))
    drawn = run.rng.integers(size, size=_SHOWN)
    picked = np.unique(np.concatenate([np.array(near), also, drawn]).astype(int))
    if picked.size <= _SHOWN:
        return picked
    return np.unique(np.append(run.rng.permutation(picked)[: _SHOWN - 1], one))
