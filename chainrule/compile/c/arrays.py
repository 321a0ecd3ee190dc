"""The arrays of a program in C: a name, a type, a shape, and what it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.compile.c import functions as fn
from chainrule.compile.c.comments import comma_list
from chainrule.compile.c.expressions import extent
from chainrule.compile.graph.sizes import Extent, product, size_at
from chainrule.errors import DtypeError

INLINE = 64
"""Up to how many numbers of a constant stand in the text."""


@final
@dataclass(frozen=True, eq=False, slots=True)
class Array:
    """Memory of its own: `name` in C, `path` as the user would say it, `about` for the comment."""

    name: str
    path: str
    dtype: Any
    shape: tuple[Extent, ...]
    about: str
    value: Any = None
    parts: tuple[str, ...] = ()
    """What lies in it, for a comment of its own."""

    @property
    def is_inline(self) -> bool:
        """Whether it is a constant whose numbers stand in the text."""
        return self.value is not None and np.size(self.value) <= INLINE

    def declared(self, largest: Mapping[str, int]) -> str:
        """Its declaration; room for the `largest` values of the symbols."""
        if self.dtype.kind not in "biuf" or self.dtype.itemsize > 8 or self.dtype.char == "e":
            raise DtypeError(
                f"to_c: {self.path} is an array of {self.dtype}, which C99 has no numbers for: "
                "use float32 or float64"
            )
        size = max(1, size_at(product(self.shape), largest))
        head = f"static {'const ' if self.is_inline else ''}{fn.type_of(self.dtype)} {self.name}"
        line = f"{head}[{size}]{self._numbers()};  /* {self._shape()}{self.about} */"
        return "".join([f"{x}\n" for x in self._parts()]) + line

    def _parts(self) -> list[str]:
        """The lines of a comment that says where parts of it begin."""
        if not self.parts:
            return []
        return comma_list("/* ", self.parts, " */")

    def _shape(self) -> str:
        if not self.shape:
            return f"{self.dtype}"
        return f"{self.dtype} ({', '.join([extent(n) for n in self.shape])})"

    def _numbers(self) -> str:
        if not self.is_inline:
            return ""
        numbers = [fn.literal(x, self.dtype) for x in np.ravel(self.value).tolist()] or ["0"]
        return f" = {{{', '.join(numbers)}}}"

    def bytes(self) -> str:
        """How many bytes of it are used, in C."""
        if all(isinstance(n, int) for n in self.shape):
            return self.room()
        return f"sizeof *{self.name} * ({extent(product(self.shape))})"

    def room(self) -> str:
        """How many bytes it may have, in C, which has no empty arrays: one of those has none."""
        return "0" if 0 in self.shape else f"sizeof {self.name}"


SPOKEN = {
    "exp_diff": "softmax", "getitem": "part", "astype": "copy", "sum_to": "sum", "pad": "padded",
    "permute_dims": "permuted", "take": "rows",
}  # fmt: skip
"""What the results of ops are called, where the op's own name says little."""


def describe_memory(label: str, shape: Sequence[Extent], inputs: Sequence[Array]) -> str:
    """The path of memory that the plan calls `label`: `input 3, turned`, say."""
    if not shape and label in SPOKEN:
        return "coefficient"
    label = re.sub(r"^input (\d+)", lambda m: inputs[int(m[1])].path, label)
    word, *rest = label.split(", ")
    return "_".join([SPOKEN.get(word, word), *rest])
