"""The state of a compiled function as its latest call left it.

A call may write to the arrays of state tensors if they are still the ones that it knows, and nobody
else can see them. Reference counts prove it. Both are asked of all of them at once, by machine code
where it finds them in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, is_
from sys import getrefcount
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import slots, word
from chainrule.compile.trace.variant import Variant
from chainrule.engine.graph import variable

_value, _node, _grad = attrgetter("value"), attrgetter("node"), attrgetter("grad")


@final
class Seen:
    """The tensors of a variant's state, their arrays, nodes and gradients.

    `unchanged(rows, count)` is the machine code that looks.
    """

    def __init__(self, variant: Variant, unchanged: Callable[[Any, int], int]) -> None:
        self._unchanged = unchanged
        self._tensors: list[Any] = [h.tensor() for h in variant.held]
        self._arrays = [t.value for t in self._tensors]
        self._nodes = [t.node for t in self._tensors]
        pairs = zip(variant.held, self._arrays, strict=True)
        self._written = [a for h, a in pairs if h.updated]
        with_grads: list[Any] = [g.tensor() for g in variant.grads]
        self._extras = [t.node.extra for t in with_grads]
        self._grads = [x.grad for x in self._extras]
        used = [g for g, h in zip(self._grads, variant.grads, strict=True) if h.read or h.written]
        self._slots = used
        self._slot_arrays = [g.value for g in used]
        self._alone = [_ALONE] * len(self._written)
        self._alone_slots = [_ALONE] * len(used)
        self._alone_grads = [_ALONE - 1] * len(used)
        self._rows: tuple[int, int, Any] | None = None

    @property
    def arrays(self) -> list[Any]:
        """Those of the state, then those of gradients, as the program wants them."""
        return [*self._arrays, *self._slot_arrays]

    def rows(self) -> list[int] | None:
        """Addresses, each with the word that is there while the state is as it is; None if what an
        object holds cannot be seen."""
        places = slots()
        if places is None:
            return None
        value, node, grad = places
        rows: list[int] = []
        t = a = n = x = g = None
        for t, a, n in zip(self._tensors, self._arrays, self._nodes, strict=True):
            rows += [id(t) + value, id(a), id(t) + node, id(n)]
        for x, g in zip(self._extras, self._grads, strict=True):
            rows += [id(x) + grad, id(g)]
        del t, a, n, x, g  # they would count
        counted = [*map(id, self._written), *map(id, self._slots), *map(id, self._slot_arrays)]
        for address in counted:
            rows += [address, word(address)]
        return rows

    def watch(self, rows: Any) -> None:
        """From now on `holds` looks at these `rows`, int64."""
        self._rows = rows.__array_interface__["data"][0], len(rows) // 2, rows

    def holds(self) -> bool:
        """Whether all is as it was, and seen by nobody else."""
        if self._rows is None:
            return self.is_alone()
        address, count, _ = self._rows
        return bool(self._unchanged(address, count))

    def is_alone(self) -> bool:
        """The same, asked in Python."""
        tensors = self._tensors
        return (
            all(map(is_, map(_value, tensors), self._arrays))
            and all(map(is_, map(_node, tensors), self._nodes))
            and list(map(getrefcount, self._written)) == self._alone
            and all(map(is_, map(_grad, self._extras), self._grads))
            and list(map(getrefcount, self._slots)) == self._alone_slots
            and list(map(getrefcount, self._slot_arrays)) == self._alone_grads
        )


def _count() -> int:
    """What `getrefcount` says in `Seen.is_alone` of an array that only a tensor and two lists hold:
    it depends on the interpreter."""
    tensor = variable(np.zeros(3))
    lists = [tensor.value], [tensor.value]
    return next(map(getrefcount, lists[1]))


_ALONE = _count()
