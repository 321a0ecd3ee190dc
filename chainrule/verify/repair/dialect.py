"""How the user's code says things: what it calls its libraries, and how they want to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from chainrule.verify.repair.draft import Draft, plain_function
from chainrule.verify.repair.fit import ATOM, part
from chainrule.verify.repair.watch import is_torch


@dataclass(frozen=True, eq=False)
class Dialect:
    """That of one draft, whose named arrays were `arrays`."""

    draft: Draft
    arrays: tuple[Any, ...]

    @cached_property
    def torch(self) -> bool:
        """Whether the code works on tensors of PyTorch's."""
        return any(is_torch(v) for v in self.arrays)

    def module(self, *names: str) -> str | None:
        """What the code calls one of these modules."""
        function = plain_function(self.draft.source.function)
        for k, v in function.__globals__.items():
            if isinstance(v, ModuleType) and v.__name__ in names:
                return k
        return None

    @cached_property
    def mathematics(self) -> str | None:
        """What the code calls the module that has roots and pi of numbers."""
        return self.module("math") if self.torch else self.module("numpy", "math")

    @cached_property
    def library(self) -> str | None:
        """What the code calls the library of its arrays."""
        if self.torch:
            return self.module("torch")
        ours = any(type(v).__module__.startswith("chainrule.") for v in self.arrays)
        return (self.module("chainrule") if ours else None) or self.module("numpy", "chainrule")

    def along(self, axis: int | Sequence[int] | None, keep: bool) -> str:
        """Arguments of a reduction, in the words of the library that is used."""
        words = ("dim", "keepdim") if self.torch else ("axis", "keepdims")
        axis = axis if axis is None or isinstance(axis, int) else tuple(axis)
        settings = [] if axis is None else [f"{words[0]}={axis}"]
        return ", ".join([*settings, *([f"{words[1]}=True"] if keep else [])])

    def transposed(self, text: str, ndim: int) -> str:
        """An expression with its last two axes exchanged."""
        text = part(text, ATOM)
        if ".mT" in self.draft.body:
            return f"{text}.mT"
        if ndim <= 2:
            return f"{text}.t()" if ".t()" in self.draft.body else f"{text}.T"
        return f"{text}.transpose(-2, -1)" if self.torch else f"{text}.swapaxes(-1, -2)"
