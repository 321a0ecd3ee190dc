"""Many runs of a program as one call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.cpu.symbols import HEADER
from chainrule.compile.runtime.scratch import Block

if TYPE_CHECKING:
    from chainrule.compile.runtime.loaded_program import Loaded


@final
class Moving:
    """Many runs of a program as one call: a row for each, of what is not the same in all of them.

    `fixed` are the objects that stay, by place among the program's objects; `places` those of the
    others.
    """

    def __init__(self, program: Loaded, fixed: Mapping[int, Any]) -> None:
        self._program = program
        self._fixed = dict(fixed)
        self.places = [i for i in range(len(program.layout.objects)) if i not in fixed]

    def __call__(self, columns: Sequence[Any], blocks: Sequence[Block]) -> None:
        """Run it once for each of `blocks`; `columns` are, by place, addresses of objects."""
        program, runs = self._program, len(blocks)
        if program.pool is not None:
            program.pool.run()
        rows = np.empty((runs, len(columns) + 2), np.int64)
        for k, column in enumerate(columns):
            rows[:, k] = column
        rows[:, -2] = [b.scratch for b in blocks]
        rows[:, -1] = [b.sizes for b in blocks]
        places = np.array(self.places, np.int64)
        count = len(program.layout.objects)
        table = (ctypes.c_void_p * count)(
            *[id(self._fixed[i]) if i in self._fixed else 0 for i in range(count)]
        )
        with program.lock:
            program.repeat(
                ctypes.addressof(table), places.ctypes.data, rows.ctypes.data, len(columns),
                runs, program.number,
            )  # fmt: skip


class Parts:
    """The rows of an array, one after the other, as objects that a program can be given. Of an
    array object it only looks at the word that says where the elements are."""

    def __init__(self, array: Any) -> None:
        """`array` is C-contiguous."""
        step = array.strides[0] if len(array) else 0
        self._cells = array.ctypes.data + step * np.arange(len(array), dtype=np.int64)
        self._array = array
        word = self._cells.itemsize
        self.addresses = (
            self._cells.ctypes.data - HEADER + word * np.arange(len(array), dtype=np.int64)
        )


@final
class ManyArguments:
    """The arguments of many calls, in lists that grow with each of them.

    `arrays` are those that a call is given, `count` for each; `sizes` the values of its dynamic
    axes; `numbers` the settings that it reads, `settings_of` for each.
    """

    def __init__(self, count: int, settings_of: int) -> None:
        self._count, self._settings_of = count, settings_of
        self.arrays: list[Any] = []
        self.sizes: list[tuple[int, ...]] = []
        self.numbers: list[float] = []

    def addresses(self) -> list[Any]:
        """For each argument its arrays' addresses, int64, one for each call."""
        words = np.fromiter(map(id, self.arrays), np.int64, len(self.arrays))
        return list(words.reshape(len(self.sizes), self._count).T)

    def settings(self) -> list[Any]:
        """For each setting its values, float64, one for each call."""
        values = np.array(self.numbers, np.float64)
        return list(np.ascontiguousarray(values.reshape(len(self.sizes), self._settings_of).T))
