"""Who makes and who uses each value of a record, and what a product does with its axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from chainrule.verify.script.step.cuts.slices import Slice
from chainrule.verify.script.step.record.tape import DRAWS, Entry, Slot

SAME_AXES = {"dropout", "div", "mul", "to", "float", "contiguous", "clone", "masked_fill", "add",
             "sub", "__truediv__", "__mul__", "__add__", "__rmul__"}  # fmt: skip
"""Calls that leave each element at its place, given one value with a graph."""
_SIGNED = {
    "add", "sub", "neg", "mean", "sum", "stack", "cat", "mul", "div", "reshape", "view", "squeeze",
    "__add__", "__sub__", "__radd__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
}  # fmt: skip
SCALES = {"mul", "__mul__", "__rmul__", "div", "__truediv__"}
_SUMS = {"add", "sub", "__add__", "__sub__", "__radd__", "__rsub__"}
_MATMULS = {"matmul", "__matmul__", "mm", "bmm"}
_TRANSPOSES = {"t", "T", "mT", "transpose", "swapaxes", "permute"}


@dataclass(eq=False)
class Links:
    """Of the part of a record that a loss depends on."""

    part: Slice

    def __post_init__(self) -> None:
        self.entries = self.part.entries
        self.maker = {s: e for e in self.entries for s in e.outputs}
        self.users: dict[int, list[Entry]] = {}
        for e in self.entries:
            for s in dict.fromkeys(e.inputs):
                self.users.setdefault(s, []).append(e)

    def shape(self, slot: int) -> tuple[int, ...]:
        """Of a value."""
        return self.part.tape.shapes.get(slot, ())

    def made_by(self, slot: int, through: set[str]) -> Entry | None:
        """The call that made a value, looked for behind calls of some names."""
        entry = self.maker.get(slot)
        while entry is not None and entry.name in through and len(entry.connected) == 1:
            entry = self.maker.get(entry.connected[0])
        return entry

    def products(self, slot: int, axis: int) -> Iterator[tuple[Entry, int, int]]:
        """Products that a value goes into, elements at their places or transposed: the product, the
        value that it is given, and the axis there that was `axis`."""
        for entry in self.users.get(slot, []):
            if is_product(entry):
                yield entry, slot, axis
            elif entry.name in SAME_AXES and len(entry.connected) == 1:
                yield from self.products(entry.outputs[0], axis)
            elif (moved := self._moved(entry, axis)) is not None:
                yield from self.products(entry.outputs[0], moved)

    def _moved(self, entry: Entry, axis: int) -> int | None:
        """Where an axis is behind a transposition."""
        rank = len(self.shape(entry.inputs[0])) if entry.inputs else 0
        if entry.name not in _TRANSPOSES or rank < 2:
            return None
        numbers = [x for x in entry.args[1:] if isinstance(x, int)]
        if entry.name == "permute":
            given: Any = numbers or (entry.args[1] if len(entry.args) > 1 else entry.kwargs["dims"])
            order = [int(x) % rank for x in given]
            return order.index(axis)
        two = numbers or list(entry.kwargs.values()) or [rank - 2, rank - 1]
        a, b = [int(x) % rank for x in two[:2]]
        return {a: b, b: a}.get(axis, axis)

    def signs(self) -> dict[int, int]:
        """By value: whether the loss grows with it, 1 or -1, as far as it is only added, taken off
        or multiplied by numbers on the way."""
        found = {self.part.loss: 1}
        for entry in reversed(self.entries):
            own = [found[s] for s in entry.outputs if s in found]
            if not own or entry.name not in _SIGNED:
                continue
            by = [x for x in entry.args if isinstance(x, float | int)]
            less = entry.name in SCALES and any(x < 0 for x in by)
            for i, x in enumerate(_flat(entry.args)):
                if isinstance(x, Slot):
                    taken = i == (entry.name == "sub" or entry.name == "__sub__")
                    turned = entry.name == "neg" or (taken and "sub" in entry.name)
                    found[x.number] = -own[0] if turned ^ less else own[0]
        return found

    def is_noisy(self, entry: Entry) -> bool:
        """Whether a call multiplies a value with noise."""
        drawn = [x for x in entry.args if not isinstance(x, Slot) and self.part.tape.is_noise(x)]
        return entry.name in SCALES and bool(drawn or self._drawn & {*entry.inputs})

    @cached_property
    def _drawn(self) -> set[int]:
        return {s for e in self.entries if e.name in DRAWS for s in e.outputs}

    def is_taken_off(self, slot: int, other: int) -> bool:
        """Whether a value is taken off another one, by sums and differences only."""
        sums, found = {slot}, {slot, other}
        for entry in self.entries:
            if entry.name in _SUMS and entry.is_live and found.intersection(entry.inputs):
                if sums.intersection(entry.inputs) and len(found & {*entry.inputs}) > 1:
                    return "sub" in entry.name
                found.update(entry.outputs)
                if sums.intersection(entry.inputs):
                    sums.update(entry.outputs)
        return False

    def kind_of_axis(self, entry: Entry, slot: int, axis: int) -> str:
        """What a product does with an axis of what it is given: "sum", "batch" or "keep"."""
        rank = len(self.shape(slot))
        at = [i for i, x in enumerate(entry.args) if isinstance(x, Slot) and x.number == slot]
        if entry.name == "einsum":
            return _einsum_kind(entry.args, slot, axis)
        if not at or rank < 2:
            return ""
        summed = rank - 1 if at[0] == 0 or entry.name == "linear" else rank - 2
        if axis == summed:
            return "sum"
        return "batch" if axis < rank - 2 and entry.name != "linear" else "keep"


def _flat(args: Sequence[Any]) -> Iterator[Any]:
    """Arguments, and those in a list of them."""
    for x in args:
        yield from cast("Sequence[Any]", x) if isinstance(x, list | tuple) else (x,)


def is_product(entry: Entry) -> bool:
    """Whether a call sums products along an axis."""
    return entry.name in _MATMULS or entry.name in ("linear", "einsum")


def _einsum_kind(args: Sequence[Any], slot: int, axis: int) -> str:
    equation = args[0]
    if not isinstance(equation, str) or "." in equation or "->" not in equation:
        return ""
    left, out = equation.replace(" ", "").split("->")
    rows, given = left.split(","), args[1:]
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = cast("Sequence[Any]", given[0])
    for row, x in zip(rows, given, strict=False):
        if isinstance(x, Slot) and x.number == slot and axis < len(row):
            if row[axis] not in out:
                return "sum"
            return "batch" if all(row[axis] in other for other in rows) else "keep"
    return ""


def dim_of(entry: Entry, rank: int, default: int | None = None) -> int | None:
    """The one axis along which a call works, counted from the first."""
    given: Any = entry.kwargs.get("dim", default)
    if len(entry.args) > 1 and isinstance(entry.args[1], int):
        given = entry.args[1]
    if isinstance(given, list | tuple) and len(cast("Sequence[Any]", given)) == 1:
        given = cast("Sequence[Any]", given)[0]
    return given % rank if isinstance(given, int) and rank else None
