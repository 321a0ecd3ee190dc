"""Many runs of a program as one call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import CALLS
from chainrule.compile.cpu.symbols import HEADER
from chainrule.compile.runtime.entry_point import ONE, builtin
from chainrule.compile.runtime.scratch import Block
from chainrule.compile.runtime.steady_looks import looks
from chainrule.engine.graph import RECORDING

if TYPE_CHECKING:
    from chainrule.compile.runtime.loaded_program import Loaded
    from chainrule.compile.trace.state_inputs import HeldNumber


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
        self._cells = _places(_address(array), array.strides[0], len(array))
        self._array = array
        self.addresses = _places(_address(self._cells) - HEADER, self._cells.itemsize, len(array))


def _places(start: int, step: int, count: int) -> Any:
    """So many addresses, `step` apart."""
    return np.arange(start, start + step * count, step) if step else np.full(count, start)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


_ROWS, _SIZES = 1024, 16
_MEMORY, _FILLED = CALLS.index("memory"), CALLS.index("filled")
_ANSWER, _KNOWN, _KEY, _ENDED = map(CALLS.index, ("answer", "sizes", "key", "ended"))


@final
class ManyArguments:
    """The arguments of many calls, a row of words for each: addresses of arrays, settings of
    optimizers, and what says the call's sizes.

    `collect(args)` and `collect_all(iterator)` are those of `cpu/call_rows.py`. Where these cannot
    look, the one gives -1, and the other is None.
    """

    def __init__(self, arrays: int, settings: Sequence[HeldNumber], gate: Any) -> None:
        """A row has so many `arrays`; `gate` are the words that `again` looks at, None if there is
        nothing that does."""
        self.collect: Callable[[Any], int] = _never
        self.collect_all: Callable[[Any], Any] | None = None
        self._arrays, self._kept, self._full = arrays, list[Any](), list[Any]()
        self._rows = np.empty((_ROWS, arrays + len(settings) + 1), np.int64)
        self._gate = gate
        head = {"kept": id(self._kept), "rows": _ROWS, "width": self._rows.shape[1]}
        head |= {"arrays": arrays, "settings": len(settings), "memory": _address(self._rows)}
        head |= {kind.__name__: id(kind) for kind in (tuple, float, int, bool)}
        head["gate"] = 0 if gate is None else _address(gate)
        self._sizes = np.zeros(_SIZES, np.int64)
        head |= {"recording": id(RECORDING), "known": _address(self._sizes), "none": id(None)}
        records = [n.words() for n in settings]
        words = [head.get(name, 0) for name in CALLS]
        self._plan = np.array([*words, *chain(*filter(None, records))], np.int64)
        if gate is not None and None not in records:
            self.collect, self._method = builtin("collect", looks().collect, ONE, self._plan)
            found = builtin("collect_all", looks().collect_all, ONE, self._plan)
            self.collect_all, self._other_method = found

    def begin(self, recording: bool) -> None:
        """`collect_all` begins: calls are noted where ops are recorded, or are not, as said."""
        self._plan[_ANSWER], self._plan[_ENDED] = id(recording), 0

    def know(self, keys: Iterable[int]) -> None:
        """From here on `collect_all` goes on after calls with these numbers; a few of them."""
        few = [*keys][:_SIZES]
        self._sizes[: len(few)] = few
        self._plan[_KNOWN] = len(few)

    @property
    def key(self) -> int:
        """The number of the call that `collect_all` gave."""
        return int(self._plan[_KEY])

    @property
    def has_ended(self) -> bool:
        """Whether there was no further call for `collect_all`."""
        return bool(self._plan[_ENDED])

    def add(self, arrays: Sequence[Any], settings: Sequence[Any], number: int) -> None:
        """Note a call of the sizes of that number."""
        if self._plan[_FILLED] == _ROWS:
            self._full.append(self._rows)
            self._rows = np.empty_like(self._rows)
            self._plan[_MEMORY], self._plan[_FILLED] = _address(self._rows), 0
        row = self._rows[self._plan[_FILLED]]
        row[: self._arrays] = [*map(id, arrays)]
        row[self._arrays : -1].view(np.float64)[:] = settings
        row[-1] = ~number
        self._kept += arrays
        self._plan[_FILLED] += 1

    def __len__(self) -> int:
        return _ROWS * len(self._full) + int(self._plan[_FILLED])

    def drop(self) -> None:
        """Forget the latest call, which was noted."""
        self._plan[_FILLED] -= 1

    def columns(self) -> tuple[list[Any], Any, Any]:
        """For each argument its arrays' addresses, int64, one for each call. The settings, float64
        (calls, settings). What says the sizes: what `collect` gave, or ~number."""
        rows = np.concatenate([*self._full, self._rows[: self._plan[_FILLED]]])
        settings = np.ascontiguousarray(rows[:, self._arrays : -1]).view(np.float64)
        return list(rows[:, : self._arrays].T), settings, rows[:, -1]


def _never(args: Any) -> int:
    """What `collect` gives where nothing can look."""
    return -1
