"""Which slot each tensor of a step has, and which slots lie in the same memory.

A slot is the number of a tensor while that lives; tensors are not held.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import final

import torch
from torch import Tensor

from chainrule.verify.script.entries import Ref


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
