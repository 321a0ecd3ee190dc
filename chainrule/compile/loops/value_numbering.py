"""What has been computed and still holds, so that an expression is computed once.

Frames follow the blocks of the code: what is computed in a loop's body is not known after it. What
is written to memory makes unknown what was read there; a local that changes, what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Any, final

from chainrule.compile.loops.accesses import writes_of
from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, Var, operands_of
from chainrule.compile.loops.statements import Into, Stmt, Store, statements

Value = Any


@final
class AvailableValues:
    """The values of expressions, and what is in memory.

    What is to be forgotten is found by what it depends on. So a body of many statements takes no
    more time for each than one of few.
    """

    def __init__(self) -> None:
        self._frames: list[dict[Any, Value]] = [{}]
        self._stored: list[dict[Buffer, dict[Affine, Value]]] = [{}]
        self._reads: dict[Expr, frozenset[Buffer]] = {}
        self._depend: dict[Buffer | Local, dict[Expr, None]] = {}
        """By what is read, the expressions that were kept since it was changed last."""

    def find(self, e: Expr) -> Value | None:
        """The value of `e`, if it holds."""
        return self.lookup(e)

    def keep(self, e: Expr, value: Value) -> None:
        """From here on, and in what is within this block, `e` is `value`."""
        self._frames[-1][e] = value
        for x in (*self.reads(e), *e.free):
            if not isinstance(x, Var):
                self._depend.setdefault(x, {})[e] = None

    def get_or_make(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` makes of values alone, which is what `key` says: once in this block."""
        found = self.lookup(key)
        if found is None:
            found = self._frames[-1][key] = make()
        return found

    def lookup(self, key: Any) -> Any | None:
        """What is known by `key`."""
        for frame in reversed(self._frames):
            if key in frame:
                return frame[key]
        return None

    @contextmanager
    def within(self) -> Generator[None]:
        """A block whose values are forgotten at its end."""
        self._frames.append({})
        self._stored.append({})
        yield
        self._frames.pop()
        self._stored.pop()

    def stored(self, s: Store, value: Value) -> None:
        """`value` is now where `s` puts it."""
        self.invalidate([s.buffer])
        if not s.add:
            self._stored[-1].setdefault(s.buffer, {})[s.at] = value

    def begin(self, s: Stmt) -> None:
        """`s`, which is more than one number, begins. What it changes anywhere is unknown from its
        start on: a loop comes back to it."""
        inner = list(statements([s]))
        self.invalidate({b for x in inner for b in writes_of(x)})
        for local in {x.local for x in inner if isinstance(x, Into)}:
            self.invalidate_local(local)

    def invalidate(self, buffers: Collection[Buffer]) -> None:
        """Something was written there: what was read from it is forgotten, and what it held."""
        for buffer in buffers:
            self._forget(buffer)
            for frame in self._stored:
                frame.pop(buffer, None)

    def stored_value(self, buffer: Buffer, at: Affine) -> Value | None:
        """What this block has stored there, if it is there still. A block around this one may be a
        loop that stores there later, before it comes back."""
        return self._stored[-1].get(buffer, {}).get(at)

    def invalidate_local(self, local: Local) -> None:
        """Forget what depends on `local`."""
        self._forget(local)

    def _forget(self, x: Buffer | Local) -> None:
        for e in self._depend.pop(x, ()):
            for frame in self._frames:
                frame.pop(e, None)

    def reads(self, e: Expr) -> frozenset[Buffer]:
        """The buffers that `e` reads."""
        found = self._reads.get(e)
        if found is None:
            own = [e.of[0]] if e.kind == "load" else []
            found = frozenset(own).union(*map(self.reads, operands_of(e)))
            self._reads[e] = found
        return found
