"""Lengths of axes: which of them can change, and which are part of what the axis means."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import Base, signs
from chainrule.verify.measure.run import Run, UnusableError, is_array
from chainrule.verify.subject import Array
from chainrule.verify.trees import tree_of

LARGEST = 40_000
"""Elements of an input that is made larger."""


def extents(xs: Sequence[Any]) -> tuple[int, ...]:
    """The lengths of axes that can be changed, each once, the shortest first."""
    return tuple(sorted({n for x in xs if is_array(x) for n in x.shape if n > 1}))


def free(run: Run, base: Base) -> tuple[int, ...]:
    """The lengths that are no part of what an axis means, the shortest first."""
    meant = (
        {n for k in run.wanted for n in _meant(run, base, k)}
        | set(_lengths_told_of(base))
        | _lengths_taken_apart(run)
    )
    return tuple([n for n in extents(base.xs) if n not in meant and not _is_owned(run, n)])


def _is_owned(run: Run, n: int) -> bool:
    """Whether what is checked keeps such a length of its own: this one, one of which this is a part
    (that of a head), or a part of this (one of the gates of a cell)."""
    return any(m % n == 0 or n % m == 0 for m in run.subject.own_sizes)


def _lengths_told_of(base: Base) -> Iterator[int]:
    """Lengths that whole numbers among the inputs tell of: the end of the last row in a list of
    rows of several lengths, or the sum of these lengths; and how many there are."""
    lengths = extents(base.xs)
    for x in base.xs:
        if is_array(x) and x.dtype.kind in "iu" and x.ndim == 1 and x.size > 1 and (x >= 0).all():
            rises = x[0] == 0 and bool((np.diff(x) >= 0).all())
            for n in {int(x.sum()), int(x[-1]) if rises else 0}.intersection(lengths):
                yield from (n, x.size)


def _lengths_taken_apart(run: Run) -> set[int]:
    """Lengths of axes whose elements the forward takes one by one, all of them: `p[:, 0]` and
    `p[:, 1]` are the coordinates of points, whatever else adds up along that axis."""
    source = run.subject.source
    taken = dict[int, set[int]]()
    for axis, i in () if source is None else _elements(source.forward_text):
        taken.setdefault(axis, set()).add(i)
    return {len(found) for found in taken.values() if found == set(range(len(found)))} - {1}


def _elements(text: str) -> Iterator[tuple[int, int]]:
    """Axes, and the elements along them, that code takes by their number, with all of another axis:
    of `p[:, 1]`, axis 1 and element 1."""
    for node in ast.walk(tree_of(text)):
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
            continue
        parts = node.slice.elts
        first = parts[0]
        from_end = isinstance(first, ast.Constant) and first.value is ...
        whole = from_end or any(isinstance(p, ast.Slice) for p in parts)
        for axis, part in enumerate(parts):
            match part:
                case ast.Constant(value=int() as i) if whole:
                    yield axis - len(parts) * from_end, i
                case _:
                    pass


def _meant(run: Run, base: Base, k: int) -> Iterator[int]:
    """Lengths of an input's axes that belong to what it is: the two coordinates of a point. However
    many there are, forward and backward take these. Rows that no index chose prove nothing."""
    if any(is_array(x) and x.dtype.kind in "iu" for x in base.xs):
        return
    x, rng = base.xs[k], np.random.default_rng(k)
    for axis, n in enumerate(x.shape):
        if n > 1 and (2 * n + 1) * x.size // n <= LARGEST:
            alone = [_more(rng, v, axis) if i == k else v for i, v in enumerate(base.xs)]
            if _same_without(run, base, k, alone) and not _belong_together(run, base, rng, n):
                yield n


def _more(rng: np.random.Generator, x: Array, axis: int) -> Array:
    """An input that is more than twice as long."""
    added = np.take(x, [*range(x.shape[axis]), 0], axis=axis)
    added = (added * (1 + np.abs(signs(rng, added.shape)))).astype(x.dtype)
    return np.concatenate([x, added], axis=axis)


def _belong_together(run: Run, base: Base, rng: np.random.Generator, n: int) -> bool:
    """Whether several axes have a length, and can all be longer at once: the steps of two
    sequences, where those of one alone would not be read."""
    xs = list(base.xs)
    axes = [(i, axis) for i, x in enumerate(xs) if is_array(x) for axis in _axes(x, n)]
    if len(axes) < 2:
        return False
    for i, axis in axes:
        xs[i] = _more(rng, xs[i], axis)
    if sum([x.size for x in xs if is_array(x)]) > LARGEST:
        return False
    try:
        bars = run.pull(xs, [np.ones(y.shape) for y in run.forward(xs)])
    except (UnusableError, ValueError):
        return False
    pairs = [(bars[i], xs[i]) for i in run.wanted]
    return all(bar is None or bar.shape == x.shape for bar, x in pairs)


def _axes(x: Array, n: int) -> list[int]:
    return [axis for axis, length in enumerate(x.shape) if length == n]


def _same_without(run: Run, base: Base, k: int, xs: Sequence[Any]) -> bool:
    """Whether forward and backward leave out what an input has more than as captured."""
    try:
        ys = run.forward(xs)
        pairs = list(zip(ys, base.ys, strict=True))
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
            return False
        bar = run.pull(xs, [np.ones(y.shape) for y in ys])[k]
    except (UnusableError, ValueError):
        return False
    return bar is not None and bar.shape == base.xs[k].shape
