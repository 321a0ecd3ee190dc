"""Instruction events by `sys.monitoring`, for Python 3.12 and later.

Only code that is followed is instrumented, so that the engine runs at its usual speed. There
`sys.settrace` does not do: whether it reports instructions depends on the version and on what was
traced before.
"""

# Python 3.11 has no sys.monitoring: nothing is known of its types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from threading import Lock, get_ident
from types import CodeType
from typing import TYPE_CHECKING, Any

from chainrule.compile.trace.guards.followed_code import is_followed
from chainrule.errors import TraceError

if TYPE_CHECKING:
    from chainrule.compile.trace.guards.observer import Observer

_monitoring: Any = getattr(sys, "monitoring", None)
_IDS = (4, 3, 5, 2)
"""Tool ids to try: the first two are nobody's by convention."""
_GLOBAL_EVENTS = ("PY_START", "PY_RESUME", "PY_THROW", "PY_UNWIND", "RAISE", "RERAISE")
_LOCAL_EVENTS = ("INSTRUCTION", "PY_RETURN", "PY_YIELD")
_observers: dict[int, Observer] = {}
"""By thread: events come from all threads."""
_instrumented: set[CodeType] = set()
_changes = Lock()


@contextmanager
def report_to(observer: Observer) -> Generator[None]:
    """Within it the observer gets the events of this thread. Raises `TraceError` if other tools
    have taken all ids."""
    thread, tool = get_ident(), _tool()
    with _changes:
        before = _observers.get(thread)
        _observers[thread] = observer
        _monitoring.set_events(tool, _mask(_GLOBAL_EVENTS))
    try:
        yield
    finally:
        with _changes:
            if before is not None:
                _observers[thread] = before
            else:
                del _observers[thread]
            if not _observers and _monitoring.get_tool(tool) == __name__:
                _stop(tool)


def _stop(tool: int) -> None:
    """No code is instrumented any more."""
    _monitoring.set_events(tool, 0)
    while _instrumented:
        _monitoring.set_local_events(tool, _instrumented.pop(), 0)


def _tool() -> int:
    """This package's tool id. It is kept: code that is not followed is marked with it, once."""
    tool = _claim_tool()
    if _monitoring.get_tool(tool) != __name__:  # somebody has freed it
        _claim_tool.cache_clear()
        tool = _claim_tool()
    return tool


@cache
def _claim_tool() -> int:
    tool = next((i for i in _IDS if _monitoring.get_tool(i) is None), None)
    if tool is None:
        users = ", ".join(_monitoring.get_tool(i) for i in _IDS)
        raise TraceError(
            f"jit: the tool ids of sys.monitoring are taken by {users}, so that a compiled "
            "function cannot be followed: end one of these tools first"
        )
    _monitoring.use_tool_id(tool, __name__)
    _instrumented.clear()
    for name in (*_GLOBAL_EVENTS, *_LOCAL_EVENTS):
        _monitoring.register_callback(tool, getattr(_monitoring.events, name), _CALLBACKS[name])
    return tool


def _mask(names: tuple[str, ...]) -> int:
    return sum(getattr(_monitoring.events, name) for name in names)


# --- callbacks, called from the frame that they are about


def _begin(code: CodeType, offset: int) -> Any:
    """A frame begins, or goes on after a yield. Code that is not followed is reported once."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    if not is_followed(code, frame.f_globals):
        return _monitoring.DISABLE
    observer = _observers.get(get_ident())
    if observer is not None:
        if code not in _instrumented:
            _instrumented.add(code)
            _monitoring.set_local_events(_claim_tool(), code, _mask(_LOCAL_EVENTS))
        observer.begin(frame)
    return None


def _interrupt(code: CodeType, offset: int, exception: BaseException) -> None:
    """An exception is raised in a frame, or thrown into one."""
    observer = _observers.get(get_ident())
    if observer is None:
        return
    mine = observer.frames.get(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    if mine is not None:
        mine.interrupted()


def _step(code: CodeType, offset: int) -> None:
    """An instruction is about to run."""
    observer = _observers.get(get_ident())
    if observer is None:
        return
    mine = observer.frames.get(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    if mine is not None:
        observer.notes.at = code, offset
        mine.step(offset)


def _end(code: CodeType, offset: int, value: Any) -> None:
    """A frame returns or yields a value, or an exception ends it."""
    observer = _observers.get(get_ident())
    if observer is not None:
        observer.end(sys._getframe(1), value)  # pyright: ignore[reportPrivateUsage]


_CALLBACKS: dict[str, Any] = {
    "PY_START": _begin, "PY_RESUME": _begin, "PY_THROW": _interrupt, "PY_UNWIND": _end,
    "RAISE": _interrupt, "RERAISE": _interrupt,
    "INSTRUCTION": _step, "PY_RETURN": _end, "PY_YIELD": _end,
}  # fmt: skip
