"""Values that leave PyTorch as numbers and come back as constants, whatever was done in between.

What NumPy or Python computes is not seen; what comes of it is. The script makes its step in copies
of the process: once as it is, and twice with the numbers of one line moved a little, one way and
the other. Constants that move with them, one way and the other, were computed from them. On the
tape of the last copy a call takes their place that does the same to first order, and cuts. (A
choice that falls otherwise jumps, and does not move one way and the other.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from chainrule.verify.pytorch.door import unseen
from chainrule.verify.script.entries import NUMBER, Entry, Slot
from chainrule.verify.script.tape import EXITS, Tape
from chainrule.verify.where import Frames, frames, is_library

BY = 1e-3
"""Share of their size by which numbers are moved."""
LIKE = 0.2
"""How alike the two ways must be, relative to how far a constant moved."""
MOST = 1 << 22
"""Elements of constants that are compared."""
SITES = 3
"""Sites that are tried."""

Site = tuple[tuple[str, int], ...]
"""The user's lines that led to a call, by file and number."""
Values = npt.NDArray[np.float64]
Constants = Sequence[tuple[str, Sequence[Values]]]
"""By entry: its name, and the constants among its arguments."""


@dataclass(frozen=True)
class Trial:
    """What a copy does: it moves the numbers that leave at a `site`, `by` so much."""

    site: Site
    by: float
    first: int
    """Number of the entry from which on constants are looked at."""
    before: tuple[Constants, ...] = ()
    """Those of the copy that moved nothing, and of the one that moved them the other way."""


@dataclass(frozen=True, eq=False)
class _Left:
    """A number or array that was moved on its way out."""

    at: int
    """How many entries there were by then."""
    x: Tensor
    way: Tensor
    """Which way it was moved."""


def sites(tape: Tape) -> dict[Site, int]:
    """Where values that come from parameters leave as numbers, before constants that the tape has
    not met come in; and the number of the entry that was next."""
    known: set[int] = set()
    late = -1
    for i, entry in enumerate(tape.entries):
        fresh = [x for x in _constants(entry) if not _is_usual(x) and id(x) not in known]
        late = i if fresh else late
        known.update([id(x) for x in fresh if isinstance(x, Tensor)])
    flowing = _flowing(tape)
    found: dict[Site, int] = {}
    for exit_ in tape.exits:
        site = _site(exit_.frames)
        if site and exit_.at <= late and exit_.slot in flowing:
            found.setdefault(site, exit_.at)
    return dict(list(found.items())[:SITES])


def _site(frames: Frames) -> Site:
    lines = [(code.co_filename, n) for code, n in frames]
    return tuple([(file, n) for file, n in lines if not is_library(file)])


def seen(tape: Tape, first: int) -> Constants:
    """Constants of all entries from `first` on.

    Raises:
        MemoryError: If they are too many to be compared.
    """
    entries = [e for e in tape.entries if e.name != NUMBER][first:]
    rows = [(e.name, [_values(x) for x in _constants(e)]) for e in entries]
    if sum([x.size for _, xs in rows for x in xs]) > MOST:
        raise MemoryError("too many numbers to be compared")
    return rows


@final
class Moved(TorchFunctionMode):
    """Moves the numbers that leave at a line, and puts on the tape what they become."""

    def __init__(self, tape: Tape, trial: Trial) -> None:
        super().__init__()
        self._tape = tape
        self._trial = trial
        self._left: dict[int, _Left] = {}  # by slot
        self._inserted = 0
        self._frames: Frames = ()
        self._joined = 0
        self._known: dict[int, tuple[Tensor, int]] = {}  # constants that have a slot by now
        self._random = np.random.default_rng(0)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The call; what leaves as a number, moved."""
        y = func(*args, **(kwargs or {}))
        slot = self._tape.slot(args[0]) if args and isinstance(args[0], Tensor) else None
        if slot is None or getattr(func, "__name__", "") not in EXITS or not _is_float(y):
            return y
        here = frames()
        if _site(here) != self._trial.site:
            return y
        self._frames = here
        with unseen():
            return self._moved(slot, args[0].detach().clone(), y)

    def _moved(self, slot: int, x: Tensor, y: Any) -> Any:
        """What has left, a random way of its own size from where it is."""
        size = float(x.double().square().mean().sqrt()) or 1.0
        way = size * torch.as_tensor(self._random.standard_normal(tuple(x.shape)), dtype=x.dtype)
        self._left[slot] = _Left(len(self._tape.entries) - self._inserted, x, way)
        return _added(y, self._trial.by * way.double().numpy())

    def join(self) -> None:
        """Put a call on the tape for each constant that came of the numbers."""
        trial = self._trial
        entries = [e for e in self._tape.entries if e.name != NUMBER]
        start = max(trial.first, self._joined)
        self._joined = len(entries)
        rows = [constants[start - trial.first :] for constants in trial.before]
        for i, (entry, as_is, other) in enumerate(zip(entries[start:], *rows, strict=False), start):
            if entry.name == as_is[0] == other[0]:
                left = {slot: row for slot, row in self._left.items() if row.at <= i}
                self._replace(entry, as_is[1], other[1], left)

    def _replace(
        self,
        entry: Entry,
        as_is: Sequence[Values],
        other: Sequence[Values],
        left: Mapping[int, _Left],
    ) -> None:
        slots: dict[int, int] = {}
        for i, (x, a, b) in enumerate(zip(_constants(entry), as_is, other, strict=False)):
            slope = _slope(_values(x), a, b, self._trial.by)
            if slope is not None and left:
                slots[i] = self._slot(x, slope, left, entry)
        if slots:
            numbers = iter(range(len(as_is)))
            entry.args = _filled(entry.args, slots, numbers)
            entry.kwargs = _filled(entry.kwargs, slots, numbers)
            entry.inputs = (*entry.inputs, *dict.fromkeys(slots.values()))

    def _slot(self, x: Any, slope: Values, left: Mapping[int, _Left], entry: Entry) -> int:
        """The slot of a constant; a call that makes it goes before the entry that it is given."""
        if id(x) in self._known:
            return self._known[id(x)][1]
        slot, value = self._tape.anonymous(), torch.as_tensor(x).detach()
        given = tuple(left)
        function = _linear(value, torch.as_tensor(slope, dtype=value.dtype), [*left.values()])
        args = [Slot(s) for s in given]
        made = Entry(NUMBER, function, args, {}, given, given, True, None, frames=self._frames)
        made.outputs, made.is_float, made.eps = (slot,), True, torch.finfo(value.dtype).eps
        self._tape.entries.insert(self._tape.entries.index(entry), made)
        self._inserted += 1
        if isinstance(x, Tensor):
            self._known[id(x)] = x, slot
        return slot


def _linear(value: Tensor, slope: Tensor, left: Sequence[_Left]) -> Callable[..., Tensor]:
    """A constant as a function of the numbers: its value, and its slope the way they were moved.

    Moving n numbers at once one random way sees 1 / sqrt(n) of the length of a gradient.
    """
    length = sum([float(row.way.double().square().sum()) for row in left])
    share = sum([row.way.numel() for row in left]) ** 0.5 / length if length else 0.0

    def number(*now: Tensor) -> Tensor:
        rows = zip(now, left, strict=True)
        moved = sum([((n - row.x) * row.way).sum().to(value.dtype) for n, row in rows])
        return value + slope * (share * moved)

    return number


def _slope(x: Values, as_is: Values, other: Values, by: float) -> Values | None:
    """How a constant moves with the numbers; None if it does not, or jumps."""
    if not x.shape == as_is.shape == other.shape:
        return None
    half = (x - other) / 2
    length = float(np.linalg.norm(half))
    far = float(np.linalg.norm((x + other) / 2 - as_is))
    return half / by if length and far <= LIKE * length and math.isfinite(length) else None


def _constants(entry: Entry) -> list[Any]:
    """Floats and float tensors among an entry's arguments that depend on nothing."""
    return list(_flat((entry.args, entry.kwargs)))


def _flat(x: Any) -> Iterator[Any]:
    if isinstance(x, tuple | list):
        for part in cast("Sequence[Any]", x):
            yield from _flat(part)
    elif isinstance(x, dict):
        yield from _flat(list(cast("dict[Any, Any]", x).values()))
    elif isinstance(x, float) or (isinstance(x, Tensor) and x.dtype.is_floating_point):
        yield x


def _filled(x: Any, slots: Mapping[int, int], numbers: Iterator[int]) -> Any:
    """Arguments with slots in place of some constants, by their numbers in `_flat`."""
    if isinstance(x, tuple | list):
        parts = [_filled(part, slots, numbers) for part in cast("Sequence[Any]", x)]
        return parts if isinstance(x, list) else tuple(parts)
    if isinstance(x, dict):
        return {k: _filled(v, slots, numbers) for k, v in cast("dict[Any, Any]", x).items()}
    if any(True for _ in _flat(x)):
        slot = slots.get(next(numbers))
        return x if slot is None else Slot(slot)
    return x


def _values(x: Any) -> Values:
    """A constant, as it is now."""
    if isinstance(x, Tensor):
        return x.detach().double().numpy().copy()
    return np.asarray(x, np.float64)


def _is_usual(x: Any) -> bool:
    """Whether a number has so few digits that somebody will have typed it."""
    return isinstance(x, float) and (not math.isfinite(x) or float(f"{x:.4g}") == x)


def _is_float(y: Any) -> bool:
    """Whether what left are floats: a number, an array, or nested lists."""
    return np.asarray(y).dtype.kind == "f"


def _added(y: Any, by: Values) -> Any:
    """A number, an array or nested lists, moved."""
    if isinstance(y, np.ndarray):
        array = cast("npt.NDArray[np.floating[Any]]", y)
        return array + by.astype(array.dtype)
    if isinstance(y, list):
        return [_added(a, b) for a, b in zip(cast("list[Any]", y), by, strict=True)]
    return y + float(by.sum())


def _flowing(tape: Tape) -> set[int]:
    """Slots of floats that come from parameters by calls on floats."""
    found = set(tape.roots)
    for entry in tape.entries:
        if entry.is_float and found.intersection(entry.inputs):
            found.update(entry.outputs)
    return found
