"""Large arrays between workers of one machine: through memory that all of them see.

Notation: W workers; span q of an array is its q-th of W nearly equal parts.

Every worker has an outbox, which the others map. It puts all spans but its own there; once all have
done so, worker q adds its span of all workers, in the fixed tree, and puts the sum into its outbox;
once all have done that, each takes the others' sums. Nothing is copied by the system's network, and
it works for any W. Two outboxes take turns: when a worker fills one again, all have long read it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, final

import numpy as np

from chainrule.op import Array
from chainrule.parallel.shards import cut

CHUNK = 1 << 16
"""Elements that are added at a time: they stay in the processor's cache."""


@final
class Outbox:
    """Memory of one worker that others can map by its `path`, while the worker lives."""

    def __init__(self, path: str = "") -> None:
        self._handle = os.open(path, os.O_RDWR) if path else os.memfd_create("chainrule")
        self.path = path or f"/proc/{os.getpid()}/fd/{self._handle}"
        self._own = not path
        self._map: Any = None

    def array(self, size: int) -> Array:
        """Its first `size` bytes; the owner makes it so large, before others ask."""
        if self._map is None or len(self._map) < size:
            if self._own:
                os.ftruncate(self._handle, size)
            self._map = mmap.mmap(self._handle, size)
        return np.frombuffer(self._map, np.uint8, size)


@final
class Shared:
    """The outboxes of all workers, as worker `rank` sees them."""

    def __init__(self, rank: int, own: Sequence[Outbox], paths: Sequence[Sequence[str]]) -> None:
        self._rank, self._size = rank, len(paths)
        self._boxes = [
            [own[k] if q == rank else Outbox(p[k]) for q, p in enumerate(paths)] for k in (0, 1)
        ]
        self._parity = 0

    def put(self, arrays: Sequence[Array]) -> None:
        """Put what others add into this worker's outbox."""
        self._parity ^= 1
        size = sum([a.nbytes for a in arrays])
        box = self._boxes[self._parity][self._rank].array(size)
        for a, mine in zip(arrays, _views(box, arrays), strict=True):
            for q in range(self._size):
                if q != self._rank:
                    part = cut(a.size, self._size, q)
                    mine[part] = a[part]

    def add(self, arrays: Sequence[Array], combine: Callable[..., object]) -> None:
        """Add this worker's span of all workers; the sum is in the array and in the outbox."""
        for i, a in enumerate(arrays):
            part = cut(a.size, self._size, self._rank)
            views = self._of_all(arrays, i)
            leaves = [a if q == self._rank else views[q] for q in range(self._size)]
            for start in range(part.start, part.stop, CHUNK):
                chunk = slice(start, min(start + CHUNK, part.stop))
                total = _tree([leaf[chunk] for leaf in leaves], combine)
                a[chunk] = views[self._rank][chunk] = total

    def take(self, arrays: Sequence[Array]) -> None:
        """Take the sums of the other spans."""
        for i, a in enumerate(arrays):
            views = self._of_all(arrays, i)
            for q in range(self._size):
                if q != self._rank:
                    part = cut(a.size, self._size, q)
                    a[part] = views[q][part]

    def _of_all(self, arrays: Sequence[Array], i: int) -> list[Array]:
        """The i-th array in every worker's outbox."""
        size = sum([a.nbytes for a in arrays])
        return [_views(box.array(size), arrays)[i] for box in self._boxes[self._parity]]


def _views(box: Array, arrays: Sequence[Array]) -> list[Array]:
    ends = np.cumsum([a.nbytes for a in arrays]).tolist()
    return [box[end - a.nbytes : end].view(a.dtype) for a, end in zip(arrays, ends, strict=True)]


def _tree(leaves: Sequence[Array], combine: Callable[..., object]) -> Array:
    """The leaves in the fixed binary tree: blocks of two, of four, .."""
    blocks = list(leaves)
    while len(blocks) > 1:
        pairs = [blocks[i : i + 2] for i in range(0, len(blocks), 2)]
        blocks = [_pair(p, combine) for p in pairs]
    return blocks[0]


def _pair(blocks: Sequence[Array], combine: Callable[..., object]) -> Array:
    if len(blocks) == 1:
        return blocks[0]
    out = np.empty_like(blocks[0])
    combine(blocks[0], blocks[1], out=out)
    return out


def connect(store: Any, rank: int, size: int) -> Shared | None:
    """The outboxes of workers on one machine; None where one of them cannot see another's."""
    own: list[Outbox] = []
    with suppress(OSError, AttributeError):  # only Linux has such memory
        own = [Outbox(), Outbox()]
    store.set(f"outbox/{rank}", "\n".join([box.path for box in own]))
    paths = [store.get(f"outbox/{q}").decode().split("\n") for q in range(size)]
    found: Shared | None = None
    with suppress(OSError):  # another container has other processes
        if all(len(p) == 2 for p in paths):
            found = Shared(rank, own, paths)
    store.set(f"sees/{rank}", "all" if found else "")
    return found if all(store.get(f"sees/{q}") == b"all" for q in range(size)) else None
