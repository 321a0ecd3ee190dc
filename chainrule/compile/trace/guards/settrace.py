"""Instruction events by `sys.settrace`, for Python 3.11."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, final

from chainrule.compile.trace.guards.followed_code import is_followed

if TYPE_CHECKING:
    from chainrule.compile.trace.guards.observer import Observer


@final
class Tracing:
    """The trace functions that report to one observer."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._frames = observer.frames

    def enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        """A frame begins, or goes on after a yield."""
        if event != "call" or not is_followed(frame.f_code, frame.f_globals):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        self._observer.begin(frame)
        return self.follow

    def follow(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        """An instruction is about to run, or the frame ends."""
        mine = self._frames.get(frame)
        if mine is None:
            return self.follow
        if event == "opcode":
            at = frame.f_lasti
            self._observer.notes.at = frame.f_code, at
            mine.step(at)
        elif event == "exception":
            mine.interrupted()
        elif event == "return":
            self._observer.end(frame, arg)
        return self.follow


@contextmanager
def report_to(observer: Observer) -> Generator[None]:
    """Within it the observer gets the events of this thread. An earlier trace function is set
    again afterwards."""
    before = sys.gettrace()
    sys.settrace(Tracing(observer).enter)
    try:
        yield
    finally:
        sys.settrace(before)
