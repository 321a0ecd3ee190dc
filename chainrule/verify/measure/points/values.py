"""Where a backward is tried besides the captured values: other signs, zeros, ties, other scales.

A point is made from the captured values and changes no more than it must, so that what the values
are (probabilities, counts, rows that sum to one) stays true of them. Only inputs whose gradient is
wanted change; whoever takes nothing but positive numbers is not asked about zeros.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from chainrule.verify.measure.noise import tangent
from chainrule.verify.measure.points.value_kinds import even_axis, in_the_nature_of, is_symmetric
from chainrule.verify.measure.run import Point, Run, inexact, is_array
from chainrule.verify.subject import Array

_SIGNS = re.compile(r"\b(f?abs|absolute|sign|copysign)\(")
"""Who takes absolute values or signs asks for both signs: no probability needs that."""
_FEWER = 4
"""So many times fewer elements than another one has an input that only says how."""
_PRODUCTS = re.compile(r"\b(?:cum)?prod\(")
"""Products are polynomials, and have a gradient where a factor is zero; quotients by it have none.
"""


def nearby_point(run: Run, point: Point) -> Point:
    """The point moved a little, off every kink."""
    xs = _map_inputs(run, point.xs, lambda x: x + tangent(run.rng, x) / 64)
    return Point(f"{point.name}, moved", xs, "moved", point.judged)


def telling_point(run: Run, point: Point) -> Point | None:
    """The point with other numbers where a whole input is 0, 1 or -1, as biases, gains, first
    states and temperatures are at first: a factor of it that is missing, or too much, and all that
    is multiplied by 0, cannot be told there. None if no input is like that, or all are, data as
    well: such a point was meant."""
    arrays = [k for k, x in enumerate(point.xs) if inexact(x) and x.size]
    blank = [k for k in arrays if _is_blank(point.xs[k])]
    asked = [k for k in blank if k in run.wanted]
    if not asked or len(blank) == len(arrays):
        return None
    xs = _map_inputs(run, point.xs, lambda x: _distinct_numbers(run, x), asked)
    return Point(f"{point.name}, other numbers for zeros and ones", xs, "value", point.judged)


def _is_blank(x: Array) -> bool:
    return any(bool((x == value).all()) for value in (0, 1, -1))


def _distinct_numbers(run: Run, x: Array) -> Array:
    """Numbers of either sign for zeros; smaller ones for others, for 1 may be the most there is."""
    return x * run.rng.uniform(0.5, 0.9, x.shape) if np.any(x) else tangent(run.rng, x)


def varied_points(run: Run, point: Point, captured: Point) -> Iterator[Point]:
    """The points that are tried besides `point`, of the same shapes.

    What the values may be is judged by the captured ones.
    """
    free = [k for k in run.wanted if _has_both_signs(captured.xs[k])]
    asks = _asks(run, _SIGNS)
    positive = [k for k in run.wanted if _positive(captured.xs[k], asks)]
    products = _asks(run, _PRODUCTS)
    zeros = [k for k in run.wanted if captured.xs[k].dtype.kind == "f"] if products else free
    kinds: list[tuple[str, str, list[int], Callable[[Array], Array]]] = [
        ("negative", "sign", free, lambda x: -np.abs(x)),
        ("positive", "sign", free, np.abs),
        ("zeros in places", "value", zeros, lambda x: _zeros(run, x)),
        ("ties", "value", free, lambda x: _ties(run, x)),
        ("8 times larger", "value", free, lambda x: 8 * x),
        ("8 times smaller", "value", free, lambda x: x / 8),
    ]
    for name, kind, which, change in kinds:
        if which:
            xs = _in_order(run, captured.xs, _map_inputs(run, point.xs, change, which))
            yield Point(_name_of(point, name), xs, kind)
    main = _main(captured, positive)
    if main:
        xs = _in_order(run, captured.xs, _map_inputs(run, point.xs, lambda x: -np.abs(x), main))
        name = _name_of(point, "negative where all were positive")
        yield Point(name, xs, "sign", frozenset(main))
    if main and asks:  # What is compared with it may be larger than all of it so far.
        xs = _in_order(run, captured.xs, _map_inputs(run, point.xs, lambda x: 8 * x, main))
        name = _name_of(point, "8 times larger where all were positive")
        yield Point(name, xs, "value", frozenset(main))


def _main(captured: Point, some: Sequence[int]) -> list[int]:
    """Those inputs that are no smaller than others and have no fewer axes: a bound, a scale or a
    temperature may mean something else where it is negative."""
    if not some:
        return []
    arrays = [x for x in captured.xs if inexact(x)]
    axes, size = max([x.ndim for x in arrays]), max([x.size for x in arrays])
    of = [(k, captured.xs[k]) for k in some]
    return [k for k, x in of if x.ndim == axes and _FEWER * x.size >= size]


def _name_of(point: Point, name: str) -> str:
    return name if point.kind == "captured" else f"{point.name}, {name}"


def _map_inputs(
    run: Run,
    xs: Sequence[Any],
    change: Callable[[Array], Array],
    which: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """The inputs with `change` applied to those of `which`; symmetric ones stay symmetric."""
    chosen = run.wanted if which is None else which
    return tuple(
        [
            _symmetric_if_it_was(x, np.asarray(change(x), x.dtype))
            if k in chosen and is_array(x)
            else x
            for k, x in enumerate(xs)
        ]
    )


def _in_order(run: Run, before: Sequence[Any], xs: Sequence[Any]) -> tuple[Any, ...]:
    """Values in which what was less than another input everywhere is no greater: the lower bound
    stays the lower one."""
    found = list(xs)
    for j, k in itertools.permutations(run.wanted, 2):
        a, b = before[j], before[k]
        less = a.shape == b.shape and "c" not in (a.dtype.kind, b.dtype.kind) and (a < b).all()
        if less and a.size and found[j].shape == found[k].shape:
            low, high = np.minimum(found[j], found[k]), np.maximum(found[j], found[k])
            found[j], found[k] = np.asarray(low, a.dtype), np.asarray(high, b.dtype)
    return tuple(found)


def _symmetric_if_it_was(x: Array, new: Array) -> Array:
    """New values, symmetric where they were."""
    return in_the_nature_of(x, new) if is_symmetric(x) else new


def _has_both_signs(x: Array) -> bool:
    """Whether x takes numbers of either sign, as far as it shows."""
    if x.dtype.kind == "c" or not np.isfinite(x).all() or even_axis(x) is not None:
        return False
    return bool((x < 0).any() and (x > 0).any())


def _asks(run: Run, calls: re.Pattern[str]) -> bool:
    """Whether the forward's code has such calls."""
    source = run.subject.source
    return source is not None and calls.search(source.forward_text) is not None


def _positive(x: Array, asks: bool) -> bool:
    """Whether x has positive numbers only, and is no probability, unless the code `asks` for their
    signs."""
    if x.dtype.kind == "c" or not np.isfinite(x).all() or not x.size:
        return False
    return bool((x > 0).all() and (asks or (x > 1).any())) and even_axis(x) is None


def _zeros(run: Run, x: Array) -> Array:
    """A quarter of the elements set to 0, one at least."""
    drawn = run.rng.random(x.shape)
    least = drawn.min(initial=1.0)
    return np.where((drawn < 0.25) | (drawn == least), np.zeros((), x.dtype), x)


def _ties(run: Run, x: Array) -> Array:
    """A third of the elements given the value of their neighbour in memory."""
    return np.where(run.rng.random(x.shape) < 0.34, np.roll(x.reshape(-1), 1).reshape(x.shape), x)
