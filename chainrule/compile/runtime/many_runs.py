"""Many runs of a program as one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import CALLS, REPEAT
from chainrule.compile.cpu.symbols import HEADER
from chainrule.compile.runtime.entry_point import ONE, builtin
from chainrule.compile.runtime.scratch import Block
from chainrule.compile.runtime.steady_looks import looks
from chainrule.engine.graph import RECORDING

if TYPE_CHECKING:
    from chainrule.compile.runtime.loaded_program import Loaded
    from chainrule.compile.trace.state_inputs import HeldNumber


@final
class Parts:
    """An array whose parts along its first axis, one after the other, are what runs are given."""

    def __init__(self, array: Any) -> None:
        """`array` is C-contiguous."""
        self.array = array


_LOOKS = 15
"""There is a look for signals after so many short runs, and one more."""
ARGUMENT, SETTING = "argument", "setting"
"""Objects of a run that its row says."""


@final
class ManyRuns:
    """Many runs of a program as one call, each of a row; see `ManyArguments.rows`.

    `objects` are the program's, in its order: what stays, `Parts`, or `ARGUMENT` or `SETTING` for
    those of a row. Number n in a row means scratch memory `blocks[n]`.
    """

    def __init__(self, program: Loaded, objects: Sequence[Any], blocks: Sequence[Block]) -> None:
        self._program, self._kept = program, (objects, blocks)
        arguments = [i for i, x in enumerate(objects) if x is ARGUMENT]
        settings = [i for i, x in enumerate(objects) if x is SETTING]
        parts = [(i, x.array) for i, x in enumerate(objects) if x.__class__ is Parts]
        # All words in one array: the plan, then what it has the addresses of.
        sizes = (len(REPEAT), len(arguments), 2 * len(blocks), len(settings))
        sizes += (2 * (len(settings) + len(parts)), len(objects))
        self._words = words = np.zeros(sum(sizes), np.int64)
        first, *places = [_address(words) + 8 * n for n in accumulate(sizes, initial=0)]
        where, memory, values, cells, self._table, _ = places
        # Of an array object a program only looks at the word that says where the elements are.
        lent = {
            i: cells + 16 * k - HEADER for k, i in enumerate([*settings, *[i for i, _ in parts]])
        }
        plan = {"width": len(arguments) + len(settings) + 1, "arrays": len(arguments)}
        plan |= {"places": where, "settings": len(settings), "values": values, "blocks": memory}
        plan["looks"] = _LOOKS if all(b.is_short for b in blocks) else 0
        plan |= {"results": len(parts), "cells": cells + 16 * len(settings)}
        words[:] = [
            *[plan[name] for name in REPEAT], *arguments,
            *[x for b in blocks for x in (b.scratch, b.sizes)], *[0] * len(settings),
            *[x for k in range(len(settings)) for x in (values + 8 * k, 0)],
            *[x for _, a in parts for x in (_address(a), a.strides[0])],
            *[lent.get(i, id(x)) for i, x in enumerate(objects)],
        ]  # fmt: skip
        self._plan = first

    def __call__(self, rows: Any) -> None:
        """Run it for each of `rows` (runs, words), whose results follow those before."""
        program = self._program
        if program.pool is not None:
            program.pool.run()
        with program.lock:
            program.repeat(self._table, self._plan, _address(rows), len(rows), program.number)


def _address(array: Any) -> int:
    return array.__array_interface__["data"][0]


_ROWS, _SIZES = 1024, 64
_MEMORY, _FILLED = CALLS.index("memory"), CALLS.index("filled")
_ANSWER, _KNOWN, _KEY, _ENDED = map(CALLS.index, ("answer", "sizes", "key", "ended"))


@final
class ManyArguments:
    """The arguments of many calls, a row of words for each: addresses of arrays, settings of
    optimizers, and what says the call's sizes.

    `collect_all(iterator)` is that of `cpu/call_rows.py`.
    """

    def __init__(self, arrays: int, settings: Sequence[HeldNumber], gate: Any) -> None:
        """A row has so many `arrays`; `gate` are the words that `again` looks at. Each of the
        settings can be seen in memory."""
        self._arrays, self._kept, self._full = arrays, list[Any](), list[Any]()
        self._rows = np.empty((_ROWS, arrays + len(settings) + 1), np.int64)
        self._gate = gate
        head = {"kept": id(self._kept), "rows": _ROWS, "width": self._rows.shape[1]}
        head |= {"arrays": arrays, "settings": len(settings), "memory": _address(self._rows)}
        head |= {kind.__name__: id(kind) for kind in (tuple, float, int, bool, np.float64)}
        self._sizes = np.zeros((_SIZES, 2), np.int64)
        head |= {"gate": _address(gate), "known": _address(self._sizes), "none": id(None)}
        head["recording"] = id(RECORDING)
        records = [n.words() or [] for n in settings]
        words = [head.get(name, 0) for name in CALLS]
        self._plan = np.array([*words, *chain(*records)], np.int64)
        found = builtin("collect_all", looks().collect_all, ONE, self._plan)
        self.collect_all, self._method = found

    def begin(self, recording: bool) -> None:
        """`collect_all` begins: calls are noted where ops are recorded, or are not, as said."""
        self._plan[_ANSWER], self._plan[_ENDED] = id(recording), 0

    def know(self, key: int, number: int) -> None:
        """From here on `collect_all` goes on after calls of these sizes, which have the number
        `key`, and notes their number. There is room for many of them."""
        n = self._plan[_KNOWN]
        if n < _SIZES:
            self._sizes[n] = key, ~number
            self._plan[_KNOWN] += 1

    @property
    def key(self) -> int:
        """The number of the call that `collect_all` gave."""
        return int(self._plan[_KEY])

    @property
    def has_ended(self) -> bool:
        """Whether there was no further call for `collect_all`."""
        return bool(self._plan[_ENDED])

    @property
    def is_full(self) -> bool:
        """Whether there is no row left."""
        return bool(self._plan[_FILLED] == _ROWS)

    def add_rows(self) -> None:
        """Make room for as many calls again."""
        self._full.append(self._rows)
        self._rows = np.empty_like(self._rows)
        self._plan[_MEMORY], self._plan[_FILLED] = _address(self._rows), 0

    def __len__(self) -> int:
        return _ROWS * len(self._full) + int(self._plan[_FILLED])

    def drop(self) -> None:
        """Forget the latest call, which was noted."""
        self._plan[_FILLED] -= 1

    def rows(self, numbers: Mapping[int, int]) -> list[Any]:
        """The rows, int64 (calls, words): addresses of arrays; bits of settings; ~number of the
        sizes. `numbers` are those of the keys."""
        parts = [*self._full, self._rows[: self._plan[_FILLED]]]
        for rows in parts:
            last = rows[:, -1]
            if (last >= 0).any():
                for key, number in numbers.items():
                    last[last == key] = ~number
        return [x for x in parts if len(x)]

    def clear(self) -> None:
        """Begin anew; what is known of sizes stays."""
        self._kept.clear()
        self._full.clear()
        self._plan[_FILLED] = 0

    def forget(self) -> None:
        """Know no sizes."""
        self._plan[_KNOWN] = 0
