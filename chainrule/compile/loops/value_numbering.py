"""What has been computed and still holds, so that an expression is computed once.

Frames follow the blocks of the code: what is computed in a loop's body is not known after it. What
is written to memory makes unknown what was read there; a local that changes, what depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Any, final

from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.accesses import writes_of
from chainrule.compile.loops.expressions import (
    Affine,
    Buffer,
    Expr,
    Local,
    Var,
    operands_of,
    within,
)
from chainrule.compile.loops.statements import Into, Stmt, Store, statements

Value = Any
Term = tuple[Var | Expr, Extent]
Terms = tuple[Term, ...]


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
        self._apart: frozenset[Var] = frozenset()
        """Counters that have no value in common."""

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
        if self._apart.isdisjoint([v for v, _ in s.at.terms]):
            self.invalidate([s.buffer])
        else:
            self._invalidate_near(s.buffer, s.at)
        if not s.add:
            self._stored[-1].setdefault(s.buffer, {})[s.at] = value

    @contextmanager
    def apart(self, counters: Collection[Var]) -> Generator[None]:
        """Within it, these counters have no value in common: that of one vector of a row is never
        that of another one. So a store of the one leaves alone what is known of the others."""
        before, self._apart = self._apart, frozenset(counters)
        yield
        self._apart = before

    def _invalidate_near(self, buffer: Buffer, at: Affine) -> None:
        """Something was written there: what may have been read from there is forgotten."""
        for frame in self._stored:
            held = frame.get(buffer, {})
            for place in [x for x in held if not self._is_apart(x, at)]:
                del held[place]
        depend = self._depend.get(buffer, {})
        for e in [x for x in depend if not self._reads_apart(x, buffer, at)]:
            del depend[e]
            for frame in self._frames:
                frame.pop(e, None)

    def _reads_apart(self, e: Expr, buffer: Buffer, at: Affine) -> bool:
        loads = [x.of for x in within(e) if x.kind == "load" and x.of[0] is buffer]
        return all(self._is_apart(place, at) for _, place, _ in loads)

    def _is_apart(self, x: Affine, y: Affine) -> bool:
        """Whether two places differ by two counters alone that have no value in common."""
        (mine, others), (theirs, rest) = map(self._parted, (x, y))
        if x.const != y.const or others != rest or not len(mine) == len(theirs) == 1:
            return False
        ((i, c),), ((j, d),) = mine, theirs
        return i is not j and c == d

    def _parted(self, at: Affine) -> tuple[Terms, frozenset[Term]]:
        """The terms of an offset with such counters, and the others."""
        mine = tuple([t for t in at.terms if t[0] in self._apart])
        return mine, frozenset([t for t in at.terms if t[0] not in self._apart])

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
