"""The captured point at other sizes: every extent gets another length, the same one everywhere.

Values come from the captured ones by taking leading parts, or by repeating with small changes, so
that what is positive, normalised, sorted, triangular or a valid index stays so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import Base, signs
from chainrule.verify.measure.points.lengths import LARGEST, extents, free
from chainrule.verify.measure.points.value_kinds import in_the_nature_of
from chainrule.verify.measure.run import Point, Run, UnusableError, inexact, is_array
from chainrule.verify.subject import Array

_SMALL = ((3, 5, 7), (3, 4, 5, 7), (2, 3, 5), (2, 3, 4, 5, 7, 9, 11))
"""In order: factors that are sizes are told apart best where sizes are odd primes."""
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)

_LESS = re.compile(r"[*/]\s*\([^()]* - 1\)|\([^()]* - 1\)\s*[*/]")
"""A factor of one less: of 3, half of it is 1, and nobody sees that it is missing."""
_HALVES = re.compile(r"::\s*2\b|//\s*2\b|\bchunk\(")

Renaming = Mapping[int, int]


def smaller(run: Run, base: Base) -> Iterator[Point]:
    """Small versions of the point at which the forward works, all lengths different."""
    lengths = free(run, base)
    for small in _beside(run, base, lengths):
        if 0 < len(lengths) <= len(small):
            yield from renamed_points(run, base, dict(zip(lengths, small, strict=False)))
    yield from _one_by_one(run, base, lengths, _shorter)


def others(run: Run, base: Base) -> Iterator[Point]:
    """Versions of the point of other lengths than its own: small ones, then larger ones."""
    lengths = free(run, base)
    small = next(_small(run, base, lengths), None)
    longer = _larger(lengths)
    large = next(renamed_points(run, base, longer), None) if longer else None
    found = [p for p in (small, large) if p is not None]
    yield from found
    if small is None:
        yield from _one_by_one(run, base, lengths, _other)
    if large is None and longer:
        yield from _one_by_one(run, base, lengths, _longer)


def multiples(run: Run, base: Base) -> Iterator[Point]:
    """Versions of the point of which all lengths are the same multiple of its own: what were four
    parts of equal length are that still. Three times, what was even or odd stays so."""
    for by in (3, 2):
        yield from _renamed(run, base, {n: by * n for n in free(run, base)})


def _small(run: Run, base: Base, lengths: Sequence[int]) -> Iterator[Point]:
    for small in _beside(run, base, lengths):
        renaming = dict(zip(lengths, small, strict=False))
        if len(renaming) == len(lengths) and all(a != b for a, b in renaming.items()):
            yield from renamed_points(run, base, renaming)


def _beside(run: Run, base: Base, lengths: Sequence[int]) -> Iterator[Sequence[int]]:
    """Small lengths for these ones, other than those that stay."""
    stay = set(extents(base.xs)) - set(lengths)
    source = run.subject.source
    if source is not None and _LESS.search(source.forward_text):
        stay |= {2, 3}
    for small in _SMALL:
        yield [n for n in small if n not in stay]


def _larger(lengths: Sequence[int]) -> dict[int, int]:
    """More than twice as long: a size written into code may be enough for what it has seen.

    What is long already stays.
    """
    renaming: dict[int, int] = {}
    for n in lengths:
        free = [p for p in _PRIMES if p > 2 * n and p not in renaming.values()]
        if free:
            renaming[n] = free[0]
    return renaming


def _shorter(n: int) -> list[int]:
    return [m for m in (2, 3, 5) if m < n]


def _other(n: int) -> list[int]:
    return [m for m in (3, 5, 2) if m != n]


def _longer(n: int) -> list[int]:
    return [*[p for p in _PRIMES if p > 2 * n][:1], n + 1, 2 * n]


def _one_by_one(
    run: Run, base: Base, lengths: Sequence[int], lengths_for: Callable[[int], list[int]]
) -> Iterator[Point]:
    """Lengths that can change by themselves, all of them together, and else each alone."""
    able: dict[int, int] = {}
    for n in lengths:
        for m in lengths_for(n):
            if m not in able.values() and any(True for _ in renamed_points(run, base, {n: m})):
                able[n] = m
                break
    together = list(renamed_points(run, base, able)) if able else []
    yield from together
    if not together:
        for n, m in able.items():
            yield from renamed_points(run, base, {n: m})


def renamed_points(run: Run, base: Base, renaming: Renaming) -> Iterator[Point]:
    """The point renamed, with lengths kept in proportion that are so by what they mean; none if the
    forward gives no finite numbers there."""
    if takes_halves(run):
        renaming = {n: m if n % 2 else 2 * m + 2 * (2 * m == n) for n, m in renaming.items()}
    yield from _renamed(run, base, _in_proportion(run, base, renaming))


def takes_halves(run: Run) -> bool:
    """Whether the forward's code takes every second element, or two halves: of an odd length there
    are none, and that it runs all the same is by chance."""
    source = run.subject.source
    return source is not None and _HALVES.search(source.forward_text) is not None


def _in_proportion(run: Run, base: Base, renaming: Renaming) -> Renaming:
    """A renaming in which the four gates of a cell are four times as long as its state still.

    A length that is a multiple of another one is so by chance if the forward works without that, at
    two lengths: at one, parts that should be as long as the others may be 1 long and be spread."""
    kept: dict[int, int] = dict(renaming)
    lengths = extents(base.xs)
    for n in lengths:
        now = kept.get(n, n)
        parts = [m for m in lengths if m < n and n % m == 0 and kept.get(m, m) * n != now * m]
        if not parts or (n not in kept and not any(m in kept for m in parts)):
            continue
        if n in run.subject.own_sizes:
            continue
        if all(any(True for _ in _renamed(run, base, {**kept, n: k})) for k in (now, now + 1)):
            continue
        for m in reversed(parts):
            multiple = {**kept, n: kept.get(m, m) * n // m}
            if any(True for _ in _renamed(run, base, multiple)):
                kept = multiple
                break
    return kept


def _renamed(run: Run, base: Base, renaming: Renaming) -> Iterator[Point]:
    """The point renamed, if the forward gives finite numbers there: with whole numbers that say how
    long an axis is, if it works so."""
    told = [_is_length(x, renaming) for x in base.xs]
    if any(told):
        with_numbers = list(_changed(run, base, renaming, told))
        yield from with_numbers
        if with_numbers:
            return
    yield from _changed(run, base, renaming, [False] * len(told))


def _is_length(x: Any, renaming: Renaming) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x in renaming


def _changed(run: Run, base: Base, renaming: Renaming, told: Sequence[bool]) -> Iterator[Point]:
    """The same; `told`: of each input whether it is such a number."""
    try:
        changed = [
            renaming[x] if says else resized(run, x, k, renaming)
            for k, (x, says) in enumerate(zip(base.xs, told, strict=True))
        ]
        xs = _unequal(run, base.xs, changed)
        if size_of(xs) > max(LARGEST, size_of(base.xs)):
            return
        ys = run.forward(xs)
        if all(np.isfinite(y).all() for y in ys) and not _rigid(base, xs, ys):
            yield Point(f"other sizes {_shapes(xs)}", xs, "size")
    except UnusableError:
        return


def _unequal(run: Run, xs: Sequence[Any], changed: Sequence[Any]) -> tuple[Any, ...]:
    """Resized inputs, of which those that were equal to another one are so no more: much is zero
    where a prediction is its target, and right for that reason only."""
    apart = list(changed)
    for k in run.wanted:
        x, new = xs[k], changed[k]
        twins = [j for j in run.wanted if j < k and is_array(x) and np.array_equal(xs[j], x)]
        if twins and inexact(x) and x.size > 1:
            moved = (new * (1 + 0.1 * signs(run.rng, new.shape))).astype(x.dtype)
            apart[k] = in_the_nature_of(x, moved)
    return tuple(apart)


def _rigid(base: Base, xs: Sequence[Any], ys: Sequence[Array]) -> bool:
    """Whether results keep their shapes though all inputs changed theirs: sizes are written into
    the forward, which then works at others by chance only.
    """
    same = [y.shape == z.shape for y, z in zip(ys, base.ys, strict=True) if z.size > 1]
    kept = [a.shape == b.shape for a, b in zip(xs, base.xs, strict=True) if is_array(b) and b.ndim]
    return bool(same) and all(same) and not any(kept)


def size_of(xs: Sequence[Any]) -> int:
    """Elements of all arrays."""
    return sum([x.size for x in xs if is_array(x)])


def _shapes(xs: Sequence[Any]) -> str:
    return " ".join([str(x.shape) for x in xs if is_array(x) and x.ndim])


def resized(run: Run, x: Any, k: int, renaming: Renaming) -> Any:
    """An input whose axes have their new lengths."""
    if not is_array(x) or not set(x.shape) & renaming.keys():
        return _keep_inside(x, renaming) if is_array(x) else x
    shape = tuple([renaming.get(n, n) for n in x.shape])
    if x.dtype.kind in "iu":
        return _indices(run, x, _repeat(x, shape), renaming)
    return lengthened(run, x, k, shape) if inexact(x) else _repeat(x, shape)


def _repeat(x: Array, shape: tuple[int, ...]) -> Array:
    """Leading parts of x, or x again and again, along each axis."""
    for axis, m in enumerate(shape):
        x = np.take(x, np.arange(m) % x.shape[axis], axis=axis)
    return x


def lengthened(run: Run, x: Array, k: int, shape: tuple[int, ...]) -> Array:
    """Input k, of real or complex numbers, at another shape."""
    grown = _repeat(x, shape)
    if grown.size > x.size and k in run.wanted:
        grown = (grown * (1 + 0.1 * signs(run.rng, grown.shape))).astype(x.dtype)
    return in_the_nature_of(x, grown)


def _keep_inside(x: Array, renaming: Renaming) -> Array:
    """Indices kept inside of axes that shrink."""
    if x.dtype.kind not in "iu" or not x.size:
        return x
    return _inside(x, x, renaming)


def _inside(x: Array, new: Array, renaming: Renaming) -> Array:
    if _are_counts(x, renaming):
        return np.clip(new, 1, renaming[int(x.max())])
    longer = [m for n, m in renaming.items() if n > int(x.max())]
    if not longer:
        return new
    return np.where(new < 0, new, new % min(longer)).astype(x.dtype)


def _are_counts(x: Array, renaming: Renaming) -> bool:
    """Whether numbers say how much of an axis is used: all of it at most, and something of it."""
    return int(x.min()) >= 1 and int(x.max()) in renaming


def _indices(run: Run, x: Array, new: Array, renaming: Renaming) -> Array:
    """Distinct numbers stay distinct, sorted ones sorted, from 0 on if they were, and all of them
    within their axis."""
    new = _inside(x, new, renaming)
    if _are_counts(x, renaming):
        return new
    flat = x.reshape(-1)
    if flat.size > 1 and np.unique(flat).size == flat.size:
        new = _permuted(run, x.reshape(-1), new.reshape(-1), 0, renaming).reshape(new.shape)
    elif (axis := _distinct_along(x)) is not None:
        new = _permuted(run, x, new, axis, renaming)
    if flat.size > 1 and x.ndim == 1 and bool((np.diff(flat) >= 0).all()):
        new = np.sort(new)
        if flat[0] == 0:  # where parts begin: what is before the first one would be in none
            new[:1] = 0
    return new


def _distinct_along(x: Array) -> int | None:
    """The last axis along which no index comes twice: orders, and choices without repeats."""
    for axis in reversed(range(x.ndim)):
        ordered = np.sort(x, axis=axis)
        if x.shape[axis] > 1 and bool((np.diff(ordered, axis=axis) > 0).all()):
            return axis
    return None


def _permuted(run: Run, x: Array, new: Array, axis: int, renaming: Renaming) -> Array:
    """Indices of which none comes twice along an axis, as of x."""
    room = [m for n, m in renaming.items() if n > int(x.max())]
    wanted = new.shape[axis]
    count = max(min(room, default=max(wanted, int(x.max()) + 1)), 1)
    if count < wanted:
        raise UnusableError("distinct indices do not fit into the other size")
    others = [n for i, n in enumerate(new.shape) if i != axis]
    every = np.broadcast_to(np.arange(count), (*others, count))
    drawn = run.rng.permuted(every, axis=-1)[..., :wanted]
    return np.moveaxis(drawn, -1, axis).astype(x.dtype)
