"""The short way of a call in machine code: what `cpu/call_gate.py` looks at, how it is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import ARGUMENT, AXES, PLAN, SYMBOLS
from chainrule.compile.cpu.object_layout import arrays_are_known, slots
from chainrule.compile.runtime.call.wanted_arguments import Wanted
from chainrule.compile.runtime.entry_point import ONE, WayIn, builtin
from chainrule.compile.runtime.machine_code import Code
from chainrule.compile.runtime.steady_looks import looks
from chainrule.engine.tensors import Tensor


@final
class Gate:
    """The arguments that a steady call takes, as machine code compares them.

    `again(args)` is a number that says their sizes. It is -1 if they or the `rows` (see
    `Steady.watch`) are not as they are to be; -2 - n, not n, if settings are for Python to see.
    `words` are those that it looks at.
    """

    def __init__(self, code: Code, plan: list[int], rows: Sequence[int], kept: Any) -> None:
        """`way` is the way into the program if they are."""
        words_of_plan = [*plan, *rows]
        self._kept = kept
        self.words = np.array(words_of_plan, np.int64)
        self.again, self._again = builtin("again", looks().again, ONE, self.words)
        self.way = WayIn(code, words_of_plan)

    def put_rows(self, rows: Sequence[int]) -> Any:
        """Look at these from now on in the place of as many, the last ones; where they are."""
        found = self.words[len(self.words) - len(rows) :]
        found[:] = rows
        return found


def look(rows: list[int], words: Any) -> tuple[Callable[[Any], int], Any]:
    """What looks at `rows` and `words` alone (see `Guards.watch`), and what is to live with it."""
    plan = np.array([*_head(0, rows, words), *rows], np.int64)
    again, method = builtin("again", looks().again, ONE, plan)
    return again, (method, words)


def _head(arguments: int, rows: Sequence[int], words: Any, settings: Any = None) -> list[int]:
    head = {"arguments": arguments, "rows": len(rows) // 2, "none": id(None)}
    head |= {"ndarray": id(np.ndarray), "guards": words.ctypes.data}
    head["settings"] = 0 if settings is None else settings.ctypes.data
    return [head.get(name, 0) for name in PLAN]


def gate(code: Code, wanted: Wanted, rows: Sequence[int], words: Any, settings: Any) -> Gate | None:
    """The gate for arguments that are `wanted`. `words` is what is known of dictionaries (see
    `guards.py`), `settings` that of settings (see `settings.py`).

    None where objects are not what they are known to be, or there are too many axes or symbols.
    """
    found = slots()
    symbols = list(dict.fromkeys([s for named in wanted.axes for s in named.values()]))
    places = wanted.places
    if found is None or not arrays_are_known() or len(symbols) > SYMBOLS:
        return None
    value, node, _ = found
    plan = _head(len(wanted.kinds), rows, words, settings if settings[0] else None)
    pairs = zip(wanted.kinds, wanted.axes, strict=True)
    for i, ((kind, shape, dtype, _), named) in enumerate(pairs):
        if len(shape) > AXES:
            return None
        sizes = [-1 - symbols.index(named[a]) if a in named else n for a, n in enumerate(shape)]
        held = (value, node) if kind is Tensor else (0, 0)
        place = places.index(i) if i in places else -1
        record = [id(kind), *held, id(dtype), len(shape), place, *sizes]
        plan += record + [0] * (len(ARGUMENT) - len(record))
    return Gate(code, plan, rows, (words, settings))
