"""The observer: follows a function, instruction by instruction, while it is traced.

Python tells it of every instruction of the user's code before it runs (`sys.settrace`). The
observer keeps a stack beside each frame's own (see `stack.py`), so that it knows which objects an
instruction is about to read, and notes them. Code of this package's engine, of NumPy and of
Python's library is not followed: what is handed to it counts as read as a whole.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, final

import numpy as np

from chainrule.compile.guards.cells import Cells
from chainrule.compile.guards.followed import is_followed
from chainrule.compile.guards.guards import Guards
from chainrule.compile.guards.instructions import RULES
from chainrule.compile.guards.notes import Notes, outer_parts
from chainrule.compile.guards.stack import Code, Frame
from chainrule.errors import TraceError


@final
class Observer:
    """Follows what runs in this thread: `notes` are what it saw, `refusal` why it is of no use."""

    def __init__(self, notes: Notes, roots: Iterable[Any]) -> None:
        self.notes = notes
        self.refusal: str | None = None
        self.cells = Cells()
        self.rules = RULES
        self._frames: dict[FrameType, Frame] = {}
        self._codes: dict[CodeType, Code] = {}
        for root in roots:
            for part in outer_parts(root):
                notes.add(part, getattr(part, "__name__", type(part).__name__))
                self.cells.learn(part)

    def refuse(self, what: str) -> None:
        """The first thing that no later call would find again."""
        if self.refusal is None:
            self.refusal = f"{what} at {self.notes.line}"

    # --- what Python calls

    def enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        """A frame begins, or goes on after a yield."""
        if event != "call" or not is_followed(frame.f_code, frame.f_globals):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        if frame not in self._frames:
            code = frame.f_code
            known = self._codes.get(code)
            if known is None:
                known = self._codes[code] = Code(code)
            self._frames[frame] = Frame(self, frame, known)
        return self.follow

    def follow(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        """An instruction is about to run, or the frame ends."""
        mine = self._frames.get(frame)
        if mine is None:
            return self.follow
        if event == "opcode":
            self.notes.at = frame.f_code, frame.f_lasti
            mine.step()
        elif event == "exception":
            mine.interrupted()
        elif event == "return":
            mine.settle()
            above = self._frames.get(frame.f_back) if frame.f_back is not None else None
            if not mine.code.goes_on:
                del self._frames[frame]
                if above is not None:
                    above.returned(arg)
        return self.follow

    @contextmanager
    def following(self) -> Generator[None]:
        """Within it what runs in this thread is followed. Who traced before, does so afterwards."""
        before = sys.gettrace()
        sys.settrace(self.enter)
        try:
            yield
        finally:
            sys.settrace(before)
            for frame in self._frames.values():
                frame.settle()
            self._frames.clear()

    def finish(self) -> Guards:
        """The guards. Raises `TraceError` where a later call could not do what this one did."""
        if self.refusal is not None:
            raise TraceError(
                f"a compiled function {self.refusal}: that would happen while it is traced, and "
                "never again. Do it outside, and give the function what comes of it as an argument"
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
