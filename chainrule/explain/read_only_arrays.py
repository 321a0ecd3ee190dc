"""Who keeps an array that cannot be written to: parameters whose value it is, ops that need it.

NumPy refuses the write at the line that does it, but knows nothing of tensors. An array class of
our own that did would be a surprise everywhere else: copies and picked elements stay of its class,
which code that asks for plain arrays refuses. So the answer is found when it is asked for.
"""

from __future__ import annotations

import gc
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from chainrule.engine.node import Node, Variable
from chainrule.engine.op import Array
from chainrule.engine.source_text import source_line
from chainrule.errors import DtypeError, describe
from chainrule.explain.kept_memory import owner, saved_arrays
from chainrule.explain.words import every_node, is_array, quote
from chainrule.page.readable import Readable

_SHOWN = 5
"""How many ops are listed."""


@dataclass(frozen=True)
class Keepers(Readable):
    """Who keeps an array; `str()` says it in words, with what to do instead of writing to it.

    >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * x
    >>> type(cr.who_keeps(x)).__name__
    'Keepers'
    """

    array: str
    """Its dtype and shape."""
    parameters: tuple[str, ...]
    """`file:line` of the making of each parameter whose value it is."""
    ops: tuple[tuple[str, str], ...]
    """Name and `file:line` of each op that keeps it for its backward pass, oldest first."""
    tensors: int
    """How many tensors that are no parameters have it, or a part of it, as their value."""

    def __str__(self) -> str:
        lines = [f"the value of the parameter made at {quote(p)}" for p in self.parameters]
        lines += [
            f"kept for its backward pass by '{o}' at {quote(w)}" for o, w in self.ops[:_SHOWN]
        ]
        if len(self.ops) > _SHOWN:
            lines.append(f"kept for their backward passes by {len(self.ops) - _SHOWN:,} more ops")
        if not lines and self.tensors:
            lines.append("the value of a tensor, which may be kept by an op at any time")
        if not lines:
            return f"{self.array} is kept by no tensor and no graph."
        return "\n".join([f"{self.array} is", *[f"    {line}" for line in lines], self._advice()])

    def _advice(self) -> str:
        copy = "Write to a copy: numpy().copy()."
        if not self.parameters:
            return copy
        return (
            "To change the parameter, give it other values: p.data = ..., or p[...] = ... within "
            f"no_grad(). To change numbers elsewhere: {copy[0].lower()}{copy[1:]}"
        )


def who_keeps(x: Variable | Array) -> Keepers:
    """Who keeps the array of a tensor, or a NumPy array that came from one and is read-only.

    Looks through all graphs that are alive. A part of an array, and what another shape of it is,
    count as the array. Raises `DtypeError` for anything else than a tensor or an array.

    >>> import chainrule as cr
    >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * x
    >>> [op for op, where in cr.who_keeps(x.detach().numpy()).ops]
    ['mul']
    """
    array = x.value if isinstance(x, Variable) else x
    if not is_array(array):
        raise DtypeError(f"who_keeps takes a tensor or an array, not {describe(x)}")
    base = owner(array)
    keepers = [n for n in every_node() if any(owner(y) is base for y, _ in saved_arrays(n))]
    ops = [n for n in sorted(keepers, key=lambda n: n.serial) if n.op is not None]
    leaves, others = _holders(base)
    return Keepers(
        describe(array),
        tuple([n.where for n in leaves]),
        tuple(dict.fromkeys([(n.name, n.where) for n in ops])),
        others,
    )


def _holders(base: Any) -> tuple[list[Node], int]:
    """The nodes of the parameters with this memory, and how many other tensors have it."""
    # by the type: isinstance would ask objects of other packages for their class, which can warn
    tensors = [x for x in gc.get_objects() if Variable in type(x).__mro__]
    # a tensor whose making failed has no value
    values = [(x, getattr(x, "value", None)) for x in tensors]
    mine = [x for x, value in values if is_array(value) and owner(value) is base]
    leaves = [x.node for x in mine if x.node is not None and x.node.op is None and x.node.needs]
    return sorted(set(leaves), key=lambda n: n.serial), len(mine) - len(leaves)


def note_keepers(error: ValueError) -> None:
    """Add to NumPy's refusal to write to an array who keeps it.

    The array is found by its name, or its tensor's, in the innermost line that has one.
    """
    if "read-only" not in str(error):
        return
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        found = list(_arrays_in_line(frame, source_line(frame.f_code.co_filename, number)))
        for name, x in found:
            error.add_note(f"{name}: {who_keeps(x)}")
        if found:
            return


def _arrays_in_line(frame: FrameType, line: str) -> Iterator[tuple[str, Any]]:
    """The tensors and the read-only arrays that `line`, which runs in `frame`, names."""
    for name in dict.fromkeys(re.findall(r"[^\W\d]\w*", line)):
        x = frame.f_locals.get(name, frame.f_globals.get(name))
        if isinstance(x, Variable) or (is_array(x) and not x.flags.writeable):
            yield name, x
