"""The observer: follows a function, instruction by instruction, while it is traced.

Python reports every instruction of the user's code before it runs (`instruction_events.py`). The
observer keeps a stack beside each frame's own (see `stack.py`). So it knows which objects an
instruction is about to read, and notes them. Code of this package's engine, of NumPy and of
Python's library is not followed: what is handed to it counts as read as a whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any, final

import numpy as np

from chainrule.compile.trace.guards.cells import Cells
from chainrule.compile.trace.guards.guards import Guards
from chainrule.compile.trace.guards.instruction_events import report_to
from chainrule.compile.trace.guards.instructions import RULES
from chainrule.compile.trace.guards.lookup import bound_objects
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.guards.stack import Code, Frame
from chainrule.errors import TraceError

_probe = FunctionType(compile("None", "<probe>", "exec"), {})
"""A function that is followed, and does nothing."""


@final
class Observer:
    """Follows what runs in this thread: `notes` are what it saw, `refusal` why it is of no use."""

    def __init__(self, notes: Notes, roots: Iterable[Any]) -> None:
        self.notes = notes
        self.refusal: str | None = None
        self._failure: tuple[Exception, str] | None = None
        self.cells = Cells()
        self.rules = RULES
        self.frames: dict[FrameType, Frame] = {}
        self._codes: dict[CodeType, Code] = {}
        self._events_lost = False
        for root in roots:
            for part in bound_objects(root):
                notes.add(part, getattr(part, "__name__", type(part).__name__))
                self.cells.learn(part)

    def refuse(self, what: str) -> None:
        """The first thing that no later call would find again."""
        if self.refusal is None:
            self.refusal = f"{what} at {self.notes.line}"

    def fail(self, cause: Exception) -> None:
        """What was read could not be looked at."""
        if self._failure is None:
            self._failure = cause, self.notes.line

    # --- what the interpreter reports

    def begin(self, frame: FrameType) -> None:
        """A frame begins, or goes on after a yield."""
        if frame not in self.frames:
            code = frame.f_code
            known = self._codes.get(code)
            if known is None:
                known = self._codes[code] = Code(code)
            self.frames[frame] = Frame(self, frame, known)

    def end(self, frame: FrameType, value: Any) -> None:
        """A frame returns or yields a value."""
        mine = self.frames.get(frame)
        if mine is None:
            return
        mine.settle()
        if not mine.code.goes_on:
            del self.frames[frame]
            above = self.frames.get(frame.f_back) if frame.f_back is not None else None
            if above is not None:
                above.returned(value)

    @contextmanager
    def following(self) -> Generator[None]:
        """Within it what runs in this thread is followed."""
        with report_to(self):
            self._events_lost = not self._gets_events()
            try:
                yield
            finally:
                self._events_lost = self._events_lost or not self._gets_events()
        for frame in self.frames.values():
            frame.settle()
        self.frames.clear()

    def _gets_events(self) -> bool:
        """Whether the interpreter reports the instructions of a function that is followed: no
        other tool has taken over."""
        before, self.notes.at = self.notes.at, None
        _probe()
        reported, self.notes.at = self.notes.at is not None, before
        return reported

    def finish(self) -> Guards:
        """The guards. Raises `TraceError` where a later call could not do what this one did."""
        if self.refusal is not None:
            raise TraceError(
                f"a compiled function {self.refusal}: that would happen while it is traced, and "
                "never again. Do it outside, and give the function what comes of it as an argument"
            )
        if self._failure is not None:
            cause, line = self._failure
            raise TraceError(
                f"a compiled function reads something at {line} that cannot be compared at later "
                f"calls: looking at it raised {type(cause).__name__}: {cause}. Read it outside, "
                "and give the function what comes of it as an argument"
            ) from cause
        if self._events_lost:
            raise TraceError(
                "a compiled function could not be followed to its end while it was traced: Python "
                "stopped reporting its instructions, because a debugger or another tool took over "
                "(sys.settrace, sys.monitoring), and what it reads would go unnoticed. Start no "
                "such tool inside it; to debug it, call it without jit"
            )
        return self.notes.finish()

    # --- what frames ask

    def learn(self, f: Any) -> None:
        """Remember where the variables of a function lie, if it was there before."""
        if self.notes.is_outer(f):
            self.cells.learn(f)

    def uses(self, array: Any) -> int:
        """How often an op was given an array."""
        return self.notes.uses.get(id(array), 0)

    def is_array(self, x: Any) -> bool:
        """Whether x is an array that was there before."""
        return type(x) is np.ndarray and self.notes.is_outer(x)
