"""Sums of tensors, kept so that a later change shows."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from chainrule.verify.pytorch.nested_tensors import checksum, comparable
from chainrule.verify.script.step.record.tape import Ref


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


def memory(t: Tensor) -> int:
    """Where the memory begins that a tensor lies in."""
    if t.layout is not torch.strided:
        return id(t)
    return int(t.data_ptr() - t.storage_offset() * t.element_size())


def is_same(name: str, made: Tensor) -> bool:
    """Whether a difference is 0 everywhere, or a quotient 1."""
    if name in ("sub", "__sub__", "__rsub__"):
        return not bool(made.any())
    return name in ("div", "__truediv__") and bool((made == 1).all())


def is_zero(name: str, made: Tensor) -> bool:
    """Whether the smallest, or largest, elements along an axis are 0, all of them."""
    return name in ("min", "max", "amin", "amax") and not bool(made.any())
