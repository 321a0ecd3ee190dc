"""The tensors of a step as numbers (slots), what memory they share, what their values were.

A slot is the number of a tensor while that lives; tensors are not held. A mark is what a value was
when a call read or made it, so that a later change shows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from chainrule.verify.pytorch.nested import checksum, comparable
from chainrule.verify.script.step.entries import Entry, Ref


@final
class Slots:
    """Numbers of tensors, given in order."""

    def __init__(self) -> None:
        self.group: dict[int, int] = {}
        """Slots that share memory have one group."""
        self._slots: dict[int, tuple[int, Ref]] = {}
        self._memory: dict[int, int] = {}

    def of(self, x: Tensor) -> int | None:
        """The number of a tensor, if it has one."""
        row = self._slots.get(id(x))
        return row[0] if row is not None and row[1]() is x else None

    def alive(self) -> set[int]:
        """Slots of the tensors that somebody still has."""
        return {slot for slot, ref in self._slots.values() if ref() is not None}

    def new(self, t: Tensor, of: int | None = None) -> int:
        """A slot for a tensor, which is a view of that in the slot `of`."""
        slot = len(self.group)
        self.group[slot] = slot if of is None else self.group[of]
        self._memory[slot] = _memory(t) if of is None else self._memory[of]
        self._slots[id(t)] = slot, weakref.ref(t)
        return slot

    def anonymous(self) -> int:
        """A slot for what no tensor has: a number."""
        slot = len(self.group)
        self.group[slot], self._memory[slot] = slot, -1
        return slot

    def viewed(self, made: Sequence[Tensor], inputs: Iterable[int]) -> list[int | None]:
        """Of which of some slots each tensor is a view."""
        shared = {self._memory[s]: s for s in inputs}
        return [shared.get(_memory(t)) for t in made]

    def clear(self) -> None:
        """Let go of all tensors."""
        self._slots.clear()


def _memory(t: Tensor) -> int:
    """Where the memory begins that a tensor lies in."""
    if t.layout is not torch.strided:
        return id(t)
    return int(t.data_ptr() - t.storage_offset() * t.element_size())


@dataclass(frozen=True, eq=False)
class Mark:
    """The sum of a tensor when a connected call read or made it."""

    ref: Ref
    version: int
    total: float


@final
class Marks:
    """Sums of tensors, by their ids."""

    def __init__(self) -> None:
        self.rows: dict[int, Mark] = {}
        self._covered: set[int] = set()  # slots whose values a mark covers

    def clear(self) -> None:
        """Let go of all."""
        self.rows.clear()

    def read(self, t: Tensor, slot: int | None, loose: bool) -> None:
        """Mark what a connected call has read and no call has made, where it is not marked, or may
        have been changed since (it is `loose`): a copy of a model that is trained through `.data`.
        """
        mark = self.rows.get(id(t))
        if loose or mark is None or mark.ref() is not t or mark.version != version(t):
            self._mark(t, checksum(t))
        if slot is not None:
            self._covered.add(slot)

    def made(
        self, t: Tensor, slot: int, of: int | None, total: Callable[[], float | None] | None
    ) -> None:
        """Mark what one has made; a view of a slot that is marked is covered by that. `total` is
        its sum, if somebody has taken it."""
        if of is None or of not in self._covered:
            self._mark(t, comparable(total()) if total is not None else checksum(t))
        self._covered.add(slot)

    def _mark(self, t: Tensor, total: float | None) -> None:
        if total is not None:
            self.rows[id(t)] = Mark(weakref.ref(t), version(t), total)


def version(t: Any) -> int:
    """How often PyTorch has seen a tensor being written to."""
    return t._version


_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_EPS = {dtype: torch.finfo(dtype).eps for dtype in (*_FLOATS, torch.complex64, torch.complex128)}
_COARSE = 0.125
"""Rounding of what has less than 16 bits."""


def graded(entry: Entry, slot: int, dtype: torch.dtype) -> None:
    """How coarse the numbers of a result are; whole ones have no derivative."""
    eps = _EPS.get(dtype)
    if eps is None and (dtype.is_floating_point or dtype.is_complex):
        eps = _COARSE
    if eps is not None:
        entry.is_float, entry.eps = True, max(entry.eps, eps)
    else:
        entry.whole += (slot,)
