"""Many runs of a program as one call."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import holders
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

    def __call__(self, columns: Sequence[Any], blocks: Sequence[Block], which: Any) -> None:
        """Run it in block 0 or 1 or ..., as `which` (runs) says for each run; `columns` are, by
        place, addresses of objects."""
        program, runs = self._program, len(which)
        if program.pool is not None:
            program.pool.run()
        rows = np.empty((runs, len(columns) + 2), np.int64)
        for k, column in enumerate(columns):
            rows[:, k] = column
        rows[:, -2:] = np.array([(b.scratch, b.sizes) for b in blocks])[which]
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
        numbers = np.arange(len(array))
        self._cells = _address(array) + array.strides[0] * numbers
        self._array = array
        self.addresses = _address(self._cells) - HEADER + self._cells.itemsize * numbers


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


@final
class ManyArguments:
    """The arguments of many calls, in lists that grow with each of them.

    `arrays` are those that a call is given, `count` for each; `sizes` the number of its sizes in a
    list of all that there were; `settings` what it reads of optimizers. None of these is an object
    that the garbage collector would count.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.arrays: list[Any] = []
        self.sizes: list[int] = []
        self.settings: list[Any] = []

    def addresses(self) -> list[Any]:
        """For each argument its arrays' addresses, int64, one for each call."""
        layout, count = holders(), len(self.arrays)
        if layout is None or not count:
            words = np.array([*map(id, self.arrays)], np.int64)
        else:  # they are what the list holds
            items = layout.word(id(self.arrays) + layout.items)
            words = np.asarray((ctypes.c_int64 * count).from_address(items))
        return list(words.reshape(len(self.sizes), self._count).T)
