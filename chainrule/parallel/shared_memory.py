"""Large arrays between workers of one machine: through memory that all of them see.

Notation: W workers; span q of an array is its q-th of W nearly equal parts.

Every worker puts its arrays into a box that the others map. Once all have done so, worker q adds
its span of all workers, in the fixed tree, and writes the sum into every box. Once all have done
that, each has the whole sum in its own box. Nothing is copied by the system's network, and it works
for any W. Arrays that lie in a box from the start (`allocate`) are not copied at all; others are
put into a box that is kept for them, but for the worker's own span.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, final
from weakref import finalize

import numpy as np

from chainrule.engine.op import Array
from chainrule.parallel.shards import cut

CHUNK = 1 << 15
"""Elements that are added at a time: they stay in the processor's cache."""
NOTES = 3
"""Float64 numbers of a worker about an exchange: its box's number and handle, its factor."""
_OPEN = 3
"""Boxes of another worker that stay mapped: those that it used last."""


@final
class Box:
    """Memory of one worker that others can map by its `path`, while the worker lives."""

    def __init__(self, path: str = "") -> None:
        self.handle = os.open(path, os.O_RDWR) if path else os.memfd_create("chainrule")
        finalize(self, os.close, self.handle)
        self._own = not path
        self._map: Any = None

    def array(self, size: int) -> Array:
        """Its first `size` bytes; the owner makes it so large, before others ask."""
        if self._map is None or len(self._map) < size:
            if self._own:
                os.ftruncate(self.handle, size)
            self._map = mmap.mmap(self.handle, size)
        return np.frombuffer(self._map, np.uint8, size)


def _path(process: int, handle: int) -> str:
    return f"/proc/{process}/fd/{handle}"


@final
class Shared:
    """The boxes of all workers, as worker `rank` sees them. `processes`: whose they are."""

    def __init__(self, rank: int, processes: Sequence[int]) -> None:
        self._rank, self._processes = rank, processes
        self._numbers = count(1)
        self._spare = (next(self._numbers), Box())
        self._blocks: dict[int, tuple[int, Box, int]] = {}
        """By where it begins, a block that was allocated: its number, box and size."""
        self._others: dict[tuple[int, int], Box] = {}
        # of the exchange that goes on:
        self._mine, self._places, self._copied = self._spare[1], list[int](), False

    def allocate(self, size: int) -> Array:
        """So many bytes in a box of their own, as long as somebody has the array."""
        box = Box()
        block = box.array(size)
        address = block.ctypes.data
        self._blocks[address] = (next(self._numbers), box, size)
        finalize(block, self._blocks.pop, address)
        return block

    def put(self, arrays: Sequence[Array], factor: float) -> Array:
        """Put arrays where others see them; (W, `NOTES`), in which the own row says where."""
        number, box, self._places = self._found(arrays) or self._copy(arrays)
        self._mine = box
        notes = np.zeros((len(self._processes), NOTES))
        notes[self._rank] = number, box.handle, factor
        return notes.reshape(-1)

    def _found(self, arrays: Sequence[Array]) -> tuple[int, Box, list[int]] | None:
        """The box in which all arrays lie, and where."""
        for start, (number, box, size) in self._blocks.items():
            places = [a.ctypes.data - start for a in arrays]
            if all(0 <= i < size for i in places):
                self._copied = False
                return number, box, places
        return None

    def _copy(self, arrays: Sequence[Array]) -> tuple[int, Box, list[int]]:
        """A box with the spans that others add."""
        self._copied = True
        number, box = self._spare
        ends = np.cumsum([a.nbytes for a in arrays]).tolist()
        places = [end - a.nbytes for end, a in zip(ends, arrays, strict=True)]
        content = box.array(ends[-1])
        for a, place in zip(arrays, places, strict=True):
            mine = _view(content, place, a)
            for part in self._other_spans(a):
                mine[part] = a[part]
        return number, box, places

    def add(
        self,
        arrays: Sequence[Array],
        notes: Array,
        combine: Callable[..., object],
        divisor: float | None,
    ) -> None:
        """Add this worker's span of all workers, each times its factor, divided by `divisor`."""
        rows = notes.reshape(-1, NOTES)
        factors = rows[:, 2].tolist()  # a float takes the dtype of the array that it multiplies
        size = max([i + a.nbytes for i, a in zip(self._places, arrays, strict=True)])
        boxes = [self._box(q, int(n), int(handle)) for q, (n, handle, _) in enumerate(rows)]
        views = [box.array(size) for box in boxes]
        for a, place in zip(arrays, self._places, strict=True):
            leaves = [_view(view, place, a) for view in views]
            leaves[self._rank] = a
            part = cut(a.size, len(rows), self._rank)
            for start in range(part.start, part.stop, CHUNK):
                chunk = slice(start, min(start + CHUNK, part.stop))
                terms = [leaf[chunk] for leaf in leaves]
                for x, factor in zip(terms, factors, strict=True):
                    if factor != 1:
                        np.multiply(x, factor, out=x)
                total = _tree(terms, combine)
                if divisor is not None:
                    np.divide(total, divisor, out=total)
                for x in terms:
                    if x is not total:
                        x[...] = total

    def take(self, arrays: Sequence[Array]) -> None:
        """Take the sums of the other spans."""
        if self._copied:
            for a, place in zip(arrays, self._places, strict=True):
                box = _view(self._mine.array(place + a.nbytes), place, a)
                for part in self._other_spans(a):
                    a[part] = box[part]

    def _other_spans(self, a: Array) -> list[slice]:
        size = len(self._processes)
        return [cut(a.size, size, q) for q in range(size) if q != self._rank]

    def _box(self, q: int, number: int, handle: int) -> Box:
        if q == self._rank:
            return self._mine
        key = (q, number)
        box = self._others.pop(key, None) or Box(_path(self._processes[q], handle))
        self._others[key] = box  # the last one is the one that was used last
        for old in [k for k in self._others if k[0] == q][:-_OPEN]:
            del self._others[old]
        return box


def _view(box: Array, place: int, like: Array) -> Array:
    return box[place : place + like.nbytes].view(like.dtype)


def _tree(leaves: Sequence[Array], combine: Callable[..., object]) -> Array:
    """The leaves in the fixed binary tree: blocks of two, of four, .. It is in the first one."""
    blocks = list(leaves)
    while len(blocks) > 1:
        for lower, upper in zip(blocks[::2], blocks[1::2], strict=False):
            combine(lower, upper, out=lower)
        blocks = blocks[::2]
    return blocks[0]


def connect(store: Any, rank: int, size: int) -> Shared | None:
    """Memory that the workers of one machine share; None where one cannot see another's."""
    token = os.urandom(16)
    own = ""
    with suppress(OSError, AttributeError):  # only Linux has such memory
        probe = Box()
        probe.array(len(token))[:] = np.frombuffer(token, np.uint8)
        own = f"{os.getpid()} {probe.handle} {token.hex()}"
    store.set(f"box/{rank}", own)
    boxes = [store.get(f"box/{q}").decode().split() for q in range(size)]
    sees = all(boxes) and all(_sees(*box) for box in boxes)
    store.set(f"sees/{rank}", "all" if sees else "")
    if not all(store.get(f"sees/{q}") == b"all" for q in range(size)):
        return None
    return Shared(rank, [int(process) for process, *_ in boxes])


def _sees(process: str, handle: str, token: str) -> bool:
    """Whether that is the box of that worker here: another container has other processes."""
    with suppress(OSError, ValueError):
        content = bytes.fromhex(token)
        return Box(_path(int(process), int(handle))).array(len(content)).tobytes() == content
    return False
