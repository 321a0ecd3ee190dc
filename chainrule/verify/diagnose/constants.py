"""Which number is it? 0.25 may be 1/B, 1/n, or a quarter: shapes at hand say what it could be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from chainrule.verify.subject import Array, Subject
from chainrule.verify.tolerances import CLOSE


@dataclass(frozen=True)
class Symbol:
    """A number that the user's call contains: an extent, a size, a setting."""

    text: str
    value: float


@dataclass(frozen=True)
class Constant:
    """What a number is: `text` to read, `plainness` how simple that is (1 is the simplest)."""

    text: str
    symbols: tuple[str, ...]
    value: float
    plainness: float


_ONE: list[tuple[str, Callable[[float], float], float]] = [
    ("{}", lambda v: v, 1.0),
    ("1/{}", lambda v: 1 / v, 1.0),
    ("sqrt({})", lambda v: v**0.5, 1.5),
    ("1/sqrt({})", lambda v: v**-0.5, 1.5),
    ("{}**2", lambda v: v * v, 2.5),
    ("1/{}**2", lambda v: v**-2, 2.5),
    ("1 - {}", lambda v: 1 - v, 2.0),
    ("1/(1 - {})", lambda v: 1 / (1 - v), 2.0),
    ("({0} - 1)/{0}", lambda v: (v - 1) / v, 2.2),
    ("{0}/({0} - 1)", lambda v: v / (v - 1), 2.2),
    ("{} - 1", lambda v: v - 1, 2.6),
    ("1/({} - 1)", lambda v: 1 / (v - 1), 2.6),
    ("2*{}", lambda v: 2 * v, 2.4),
    ("2/{}", lambda v: 2 / v, 2.4),
    ("{}/2", lambda v: v / 2, 2.4),
    ("1/(2*{})", lambda v: 0.5 / v, 2.4),
]
_PLAIN: list[tuple[str, float]] = [
    *[(str(n), float(n)) for n in range(2, 11)],
    *[(f"1/{n}", 1.0 / n) for n in range(2, 11)],
    ("3/2", 1.5),
    ("2/3", 2 / 3),
    ("3/4", 0.75),
    ("4/3", 4 / 3),
    ("sqrt(2)", math.sqrt(2)),
    ("1/sqrt(2)", math.sqrt(0.5)),
    ("pi", math.pi),
    ("2*pi", 2 * math.pi),
    ("sqrt(2/pi)", math.sqrt(2 / math.pi)),
    ("ln 2", math.log(2)),
    ("1/ln 2", 1 / math.log(2)),
    ("ln 10", math.log(10)),
    ("1/ln 10", 1 / math.log(10)),
    *[(f"{10.0**n:g}", 10.0**n) for n in (-3, -2, 2, 3)],
]


def symbols(
    subject: Subject, xs: Sequence[Any], ys: Sequence[Array], first: int = 0
) -> list[Symbol]:
    """Numbers at hand at a point: extents of inputs (that of index `first` before others) and
    outputs, sizes, settings. In the same order at every point, whatever the extents."""
    order = [first, *[i for i in range(len(xs)) if i != first]]
    found: list[Symbol] = []
    for i in order:
        found += _of(subject.inputs[i].name, xs[i])
    for i, y in enumerate(ys):
        found += _of("y" if len(ys) == 1 else f"y[{i}]", y)
    return found


def _of(name: str, value: Any) -> Iterator[Symbol]:
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        yield Symbol(name, float(value))
    elif isinstance(value, np.ndarray):
        array = cast("Array", value)
        for axis, extent in enumerate(array.shape):
            yield Symbol(f"{name}.shape[{axis}]", float(extent))
        if array.ndim > 1:
            yield Symbol(f"{name}.size", float(array.size))


def candidates(at_hand: Sequence[Symbol]) -> list[Constant]:
    """Every positive number that can be made of those at hand, and well-known ones."""
    plain = [Constant(text, (), value, 1.2) for text, value in _PLAIN]
    found = [*_single(at_hand), *_pairs(at_hand), *plain]
    return sorted(found, key=lambda c: c.plainness)


def recognise(c: float, at_hand: Sequence[Symbol]) -> list[Constant]:
    """All that the positive or negative number c could be, the plainest first."""
    if not math.isfinite(c) or c == 0 or is_near(c, 1.0):
        return []
    sign = "-" if c < 0 else ""
    fitting = [f for f in candidates(at_hand) if is_near(abs(c), f.value)]
    return [Constant(sign + f.text, f.symbols, c, f.plainness) for f in fitting]


def value_of(constant: Constant, at_hand: Sequence[Symbol]) -> float:
    """The value that `constant` has among other numbers at hand; its own if it has none there."""
    text = constant.text.removeprefix("-")
    for f in candidates(at_hand):
        if f.text == text:
            return math.copysign(f.value, constant.value)
    return constant.value


def is_near(a: float, b: float) -> bool:
    """Whether a measured number a is the known b."""
    return abs(a - b) <= CLOSE * abs(b)


def _single(at_hand: Sequence[Symbol]) -> Iterator[Constant]:
    for symbol in at_hand:
        for text, function, plainness in _ONE:
            value = _at(function, symbol.value)
            if value is not None:
                yield Constant(text.format(symbol.text), (symbol.text,), value, plainness)


def _pairs(at_hand: Sequence[Symbol]) -> Iterator[Constant]:
    extents = [s for s in at_hand if "shape[" in s.text and s.value > 0]
    for i, a in enumerate(extents):
        for b in extents[i + 1 :]:
            for text, value in _products(a, b):
                yield Constant(text, (a.text, b.text), value, 3.0)


def _products(a: Symbol, b: Symbol) -> list[tuple[str, float]]:
    product = a.value * b.value
    return [
        (f"{a.text}*{b.text}", product),
        (f"1/({a.text}*{b.text})", 1 / product),
        (f"{a.text}/{b.text}", a.value / b.value),
        (f"{b.text}/{a.text}", b.value / a.value),
    ]


def _at(function: Callable[[float], float | complex], value: float) -> float | None:
    """The function's value where it is a positive number; a root of a negative one is none."""
    try:
        result = function(value)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return result if isinstance(result, float | int) and result > 0 else None
