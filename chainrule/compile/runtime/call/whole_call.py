"""A steady call in machine code, from its arguments to what it returns: `cpu/whole_call.py`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import CALL_PLAN, ENTRIES, ENTRY, RESULTS
from chainrule.compile.cpu.object_layout import locked_byte, slots
from chainrule.compile.graph.rules.index_checks import refuse
from chainrule.compile.runtime.call.gate import Gate
from chainrule.compile.runtime.entry_point import ONE, builtin
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.prepared_calls import Entered
from chainrule.compile.runtime.result_memory import is_lent
from chainrule.compile.runtime.steady_looks import looks
from chainrule.compile.trace.results import returns_tensor
from chainrule.compile.trace.variant import MISFIT
from chainrule.engine import watch
from chainrule.engine.graph import RECORDING, around
from chainrule.engine.tensors import Tensor

_WATCHES = "watches"
_FILLED = CALL_PLAN.index("filled")


@final
class WholeCall:
    """`call(args)` is the result of a call whose sizes were added, or `MISFIT`."""

    def __init__(
        self, native: Loaded, gate: Gate, recording: bool, finish: Callable[[Any], Any], count: int
    ) -> None:
        """`count` is the number of results, which `finish` makes into what is returned."""
        lock, checks, at = native.lock, native.checks, locked_byte()
        self.keys = set[int]()
        """The numbers of the sizes that have an entry."""
        self._entries = np.zeros((ENTRIES, len(ENTRY)), np.int64)
        self._kept = [gate, native, lock.acquire, lock.release, finish, partial(_refuse, checks)]
        head = {"gate": gate.words.ctypes.data, "entries": self._entries.ctypes.data}
        head |= {"recording": id(RECORDING), "answer": id(recording), "misfit": id(MISFIT)}
        head |= {"acquire": id(self._kept[2]), "release": id(self._kept[3])}
        head |= {"enter": native.code.enter, "empty": id(np.empty), "none": id(None)}
        head |= {"around": id(around), "watch": id(vars(watch)), "nobody": id(())}
        head |= {"watches": id(_WATCHES), "results": count, "finish": id(finish)}
        head |= {"refuse": id(self._kept[-1]), "locked": 0 if at is None else id(lock) + at}
        if returns_tensor(finish):
            value, node, _ = slots() or (0, 0, 0)
            head |= {"tensor": id(Tensor), "value": value, "node": node}
        self._plan = np.array([head.get(name, 0) for name in CALL_PLAN], np.int64)
        self.call, self._method = builtin("call", looks().call, ONE, self._plan)

    def add(self, key: int, entered: Entered) -> None:
        """From here on calls with these sizes are made, if there is room."""
        n = int(self._plan[_FILLED])
        if n == ENTRIES or key in self.keys:
            return
        self.keys.add(key)
        kinds = [x for pair in entered.made for x in pair]
        lent = any(is_lent(shape, dtype) for shape, dtype in entered.made)
        maker = id(entered.results) if lent else 0
        words = [key, id(entered.plan), int(entered.is_short), maker, *map(id, kinds)]
        self._entries[n, : len(words)] = words
        self._kept += [entered, kinds]
        self._plan[_FILLED] += 1


def _refuse(checks: list[str], flags: int) -> None:
    refuse(flags, checks)


def whole_call(
    native: Loaded, gate: Gate, recording: bool, finish: Callable[[Any], Any]
) -> WholeCall | None:
    """The short way for calls of a program; None if it runs ops in Python, has something to undo,
    or many results."""
    count = len(native.layout.results) - bool(native.checks)
    if native.hosts or native.code.undo or not 0 < count <= RESULTS:
        return None
    return WholeCall(native, gate, recording, finish, count)
