"""Places in a script's own code at which the verifier is told that the script has come there.

A script is compiled with a call at each of them, on the line of the statement that stands there;
all else is as it stands. Which places these are say `loops.py`, `pairs.py` and `index_sums.py`.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeAlias, final

Hear: TypeAlias = Callable[[int, FrameType], None]
"""Is told the line of a loop or a function, and the frame that runs it."""


@final
class Places:
    """Places of one kind, and who is told of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        """What the calls in the script's code call."""
        self._hears: tuple[Hear, ...] = ()

    def listen(self, hear: Hear) -> None:
        """Let each arrival begin with `hear`."""
        self._hears += (hear,)

    def unlisten(self, hear: Hear) -> None:
        """No more."""
        self._hears = tuple([h for h in self._hears if h != hear])

    def forget(self) -> None:
        """Let nobody be told any more."""
        self._hears = ()

    def tell(self, line: int) -> None:
        """What the calls in the script's code do."""
        for hear in self._hears:
            hear(line, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]

    def put_into(self, block: list[ast.stmt], at: int, line: int) -> None:
        """Put a call before the statement `at` of a block."""
        call = ast.Call(ast.Name(self.name, ast.Load()), [ast.Constant(line)], [])
        block.insert(at, ast.copy_location(ast.Expr(call), block[at]))


TURNS: Final = Places("__chainrule_turn__")
"""Turns of loops that change parameters."""
CALLS: Final = Places("__chainrule_call__")
"""Calls of functions that may be a backward or have one."""
SUMS: Final = Places("__chainrule_sum__")
"""Statements that add at indices."""
_ALL = (TURNS, CALLS, SUMS)


def prepare() -> None:
    """Let code that tells of its places run, from now on: the script's functions may outlive it."""
    for places in _ALL:
        setattr(builtins, places.name, places.tell)


def silence() -> None:
    """Let nobody be told of anything any more: in a copy of the process."""
    for places in _ALL:
        places.forget()
