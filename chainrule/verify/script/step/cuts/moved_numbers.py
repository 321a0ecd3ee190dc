"""Values that leave a library as numbers and come back as constants, whatever was done in between.

What NumPy or Python computes is not seen; what comes of it is. The script makes its step in copies
of the process: once as it is, and twice with the numbers of one line moved a little, one way and
the other. Constants that move with them, one way and the other, were computed from them. On the
tape of the last copy a call takes their place that does the same to first order, and cuts. (A
choice that falls otherwise jumps, and does not move one way and the other.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
import numpy.typing as npt

from chainrule.verify.script.step.record.tape import NUMBER, Entry, Slot, Tape, forth, with_things
from chainrule.verify.script.step.record.tensors import Exited, Tensors, Values
from chainrule.verify.user_frames import Frames, frames, is_library

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


def sites(tape: Tape, tensors: Tensors) -> dict[Site, int]:
    """Where values that come from parameters leave as numbers, before constants that the tape has
    not met come in; and the number of the entry that was next."""
    if not tape.exits:
        return {}
    known: set[int] = set()
    late = -1
    for i, entry in enumerate(tape.entries):
        constants = tensors.constants(entry)
        fresh = [x for x in constants if not _is_usual(x) and id(x) not in known]
        late = i if fresh else late
        known.update([id(x) for x in fresh if not isinstance(x, float)])
    flowing = _slots_of_floats(tape)
    found: dict[Site, int] = {}
    for exit_ in tape.exits:
        site = _site(exit_.frames)
        if site and exit_.at <= late and exit_.slot in flowing:
            found.setdefault(site, exit_.at)
    return dict(list(found.items())[:SITES])


def _site(frames: Frames) -> Site:
    lines = [(code.co_filename, n) for code, n in frames]
    return tuple([(file, n) for file, n in lines if not is_library(file)])


def constants_of(tape: Tape, first: int, tensors: Tensors) -> Constants:
    """Constants of all entries from `first` on.

    Raises:
        MemoryError: If they are too many to be compared.
    """
    entries = [e for e in tape.entries if e.name != NUMBER][first:]
    rows = [(e.name, [tensors.copy(x) for x in tensors.constants(e)]) for e in entries]
    if sum([x.size for _, xs in rows for x in xs]) > MOST:
        raise MemoryError("too many numbers to be compared")
    return rows


@final
class Moved:
    """Moves the numbers that leave at a line, and puts on the tape what they become."""

    def __init__(self, tape: Tape, trial: Trial, tensors: Tensors) -> None:
        self.tape = tape
        self.trial = trial
        self.tensors = tensors
        self._left: dict[int, Exited] = {}  # by slot
        self._inserted = 0
        self._frames: Frames = ()
        self._joined = 0
        self._known: dict[int, tuple[Any, int]] = {}  # constants that have a slot by now
        self._random = np.random.default_rng(0)

    def on_exit(self, x: Any, y: Any) -> Any:
        """`y`, which the tensor `x` has left as: moved, if that was at the line."""
        slot = self.tape.slot(x)
        if slot is None or not _is_float(y):
            return y
        here = frames()
        if _site(here) != self.trial.site:
            return y
        self._frames = here
        return self._move(slot, self.tensors.values(x), y)

    def _move(self, slot: int, x: Values, y: Any) -> Any:
        """What has left, a random way of its own size from where it is."""
        size = float(np.sqrt(np.mean(np.square(x)))) or 1.0
        way = size * self._random.standard_normal(x.shape)
        self._left[slot] = Exited(len(self.tape.entries) - self._inserted, x, way)
        return _add(y, self.trial.by * way)

    def join(self) -> None:
        """Put a call on the tape for each constant that came of the numbers."""
        trial = self.trial
        entries = [e for e in self.tape.entries if e.name != NUMBER]
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
        left: Mapping[int, Exited],
    ) -> None:
        """Put a call that depends on the numbers in the place of constants that moved with them."""
        slots: dict[int, int] = {}
        constants = self.tensors.constants(entry)
        for i, (x, a, b) in enumerate(zip(constants, as_is, other, strict=False)):
            slope = _slope(self.tensors.copy(x), a, b, self.trial.by)
            if slope is not None and left:
                slots[i] = self._slot(x, slope, left, entry)
        if slots:
            numbers = iter(range(len(as_is)))
            entry.args = self._fill(entry.args, slots, numbers)
            entry.kwargs = self._fill(entry.kwargs, slots, numbers)
            entry.inputs = (*entry.inputs, *dict.fromkeys(slots.values()))

    def _slot(self, x: Any, slope: Values, left: Mapping[int, Exited], entry: Entry) -> int:
        """The slot of a constant; a call that makes it goes before the entry that it is given."""
        if id(x) in self._known:
            return self._known[id(x)][1]
        slot, given = self.tape.anonymous(), tuple(left)
        rows = [*left.values()]
        function, eps = self.tensors.linear(x, slope, rows, _share(rows))
        args = [Slot(s) for s in given]
        made = Entry(NUMBER, function, args, {}, given, given, True, None, frames=self._frames)
        made.outputs, made.is_float, made.eps = (slot,), True, eps
        self.tape.entries.insert(self.tape.entries.index(entry), made)
        self._inserted += 1
        if not isinstance(x, float):
            self._known[id(x)] = x, slot
        return slot

    def _fill(self, x: Any, slots: Mapping[int, int], numbers: Iterator[int]) -> Any:
        """Arguments with slots in place of some constants, by their numbers in `constants`."""

        def filled(x: Any) -> Any:
            slot = slots.get(next(numbers)) if self.tensors.is_float(x) else None
            return x if slot is None else Slot(slot)

        return with_things(x, filled)


def _share(left: Sequence[Exited]) -> float:
    """How far a way leads per unit of gradient: moving n numbers at once one random way sees
    1 / sqrt(n) of the length of a gradient."""
    length = sum([float(np.square(row.way).sum()) for row in left])
    return sum([row.way.size for row in left]) ** 0.5 / length if length else 0.0


def _slope(x: Values, as_is: Values, other: Values, by: float) -> Values | None:
    """How a constant moves with the numbers; None if it does not, or jumps."""
    if not x.shape == as_is.shape == other.shape:
        return None
    with np.errstate(all="ignore"):  # infinities stay where they are
        half = (x - other) / 2
        length = float(np.linalg.norm(half))
        far = float(np.linalg.norm((x + other) / 2 - as_is))
    return half / by if length and far <= LIKE * length and math.isfinite(length) else None


def _is_usual(x: Any) -> bool:
    """Whether a number has so few digits that somebody will have typed it."""
    return isinstance(x, float) and (not math.isfinite(x) or float(f"{x:.4g}") == x)


def _is_float(y: Any) -> bool:
    """Whether what left are floats: a number, an array, or nested lists."""
    return np.asarray(y).dtype.kind == "f"


def _add(y: Any, by: Values) -> Any:
    """A number, an array or nested lists, moved."""
    if isinstance(y, np.ndarray):
        array = cast("npt.NDArray[np.floating[Any]]", y)
        return array + by.astype(array.dtype)
    if isinstance(y, list):
        return [_add(a, b) for a, b in zip(cast("list[Any]", y), by, strict=True)]
    return y + float(by.sum())


def _slots_of_floats(tape: Tape) -> set[int]:
    """Slots of floats that come from parameters by calls on floats."""
    return forth(tape.entries, tape.roots, lambda e: e.is_float)
