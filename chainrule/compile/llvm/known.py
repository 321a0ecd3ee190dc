"""What has been computed and still holds, so that an expression is computed once.

Frames follow the blocks of the code: what is computed in a loop's body is not known after it. A
store makes what was read from a buffer that the kernel writes unknown; a local that changes, what
depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from typing import Any, final

from chainrule.compile.loops.expressions import Affine, Buffer, Expr, Local, within
from chainrule.compile.loops.statements import Routine, Stmt, Store, statements

Value = Any


@final
class Known:
    """The values of expressions, for the kernel with this body."""

    def __init__(self, body: Sequence[Stmt]) -> None:
        self._frames: list[dict[Expr, Value]] = [{}]
        inner = list(statements(body))
        self._written = {s.buffer for s in inner if isinstance(s, Store)}
        for s in inner:
            if isinstance(s, Routine):
                self._written |= {x.buffer for x in s.spans("out", "inout")}
        self._stale: dict[Expr, bool] = {}
        self._stored: list[dict[tuple[Buffer, Affine], Value]] = [{}]

    def find(self, e: Expr) -> Value | None:
        """The value of `e`, if it holds."""
        for frame in reversed(self._frames):
            if e in frame:
                return frame[e]
        return None

    def keep(self, e: Expr, value: Value) -> None:
        """From here on, and in what is within this block, `e` is `value`."""
        self._frames[-1][e] = value

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
        self.written([s.buffer])
        if not s.add:
            self._stored[-1][s.buffer, s.at] = value

    def written(self, buffers: Collection[Buffer]) -> None:
        """Something was written there: what was read from memory that the kernel writes is
        forgotten, and what these buffers held."""
        self._forget(self._reads_written)
        for frame in self._stored:
            for buffer, at in [x for x in frame if x[0] in buffers]:
                del frame[buffer, at]

    def held(self, buffer: Buffer, at: Affine) -> Value | None:
        """What this block has stored there, if it is there still. A block around this one may be a
        loop that stores there later, before it comes back."""
        return self._stored[-1].get((buffer, at))

    def changed(self, local: Local) -> None:
        """Forget what depends on `local`."""
        self._forget(lambda e: local in e.free)

    def _forget(self, stale: Callable[[Expr], bool]) -> None:
        for frame in self._frames:
            for e in [e for e in frame if stale(e)]:
                del frame[e]

    def _reads_written(self, e: Expr) -> bool:
        stale = self._stale.get(e)
        if stale is None:
            stale = any(x.kind == "load" and x.of[0] in self._written for x in within(e))
            self._stale[e] = stale
        return stale
