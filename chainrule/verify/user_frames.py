"""Which of the lines that are running are the user's, and which a library's.

A *line* is a code object and a number in it, which costs nothing to keep; a `Place` is made of it
when somebody asks.
"""

from __future__ import annotations

import os
import site as _site
import sys
import sysconfig
from collections.abc import Iterator, Set
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

from chainrule.engine.source_text import is_command
from chainrule.verify.place import Place

Line = tuple[CodeType, int]
Frames = tuple[Line, ...]
"""Lines of a stack, the innermost first."""

_SITES = 8
"""How many of the user's lines tell two calls apart."""
_DEEP = 40
"""Lines that are kept of a stack."""
_HANDS_ON = ("__torch_function__", "__torch_dispatch__")
"""Methods of a user's that only hand on what another line asked for."""
_MADE = ("<frozen", "<string", "<eval_with_key", "<__array_function__")
"""Code that a library has made. What is typed into an interpreter is the user's."""
_OWN = str(Path(__file__).resolve().parents[1]) + os.sep


def _folders() -> tuple[str, ...]:
    """Where Python and packages are installed."""
    known = sysconfig.get_paths()
    paths = [known[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")]
    every = [*paths, *_site.getsitepackages(), _site.getusersitepackages()]
    return tuple({path + os.sep for path in every})


_LIBRARIES = (_OWN, *_MADE, *_folders())
_passed: dict[CodeType, bool] = {}


def is_library(file: str) -> bool:
    """Whether a file belongs to Python, to an installed package or to chainrule itself."""
    return file.startswith(_LIBRARIES)


def users_files(besides: Set[str] = frozenset()) -> list[str]:
    """The user's own files of code that are loaded, but for modules of these names."""
    loaded = [module for name, module in list(sys.modules.items()) if name not in besides]
    files = [getattr(module, "__file__", None) for module in loaded]
    return [f for f in dict.fromkeys(files) if f and f.endswith(".py") and not is_library(f)]


def _is_passed(code: CodeType) -> bool:
    known = _passed.get(code)
    if known is None:
        library = is_library(code.co_filename) and not is_command(code)
        known = code.co_name in _HANDS_ON or library
        _passed[code] = known
    return known


def _up(frame: FrameType | None) -> FrameType | None:
    while frame is not None and _is_passed(frame.f_code):  # for each op, so without a generator
        frame = frame.f_back
    return frame


def with_callers(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame, and those that led to it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def user_frame() -> FrameType | None:
    """The innermost frame of the user's, None if there is none."""
    return _up(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


def raised_at(error: BaseException | None) -> Place | None:
    """The user's innermost line that was running when an exception was raised."""
    found, trace = None, None if error is None else error.__traceback__
    while trace is not None:
        if not _is_passed(trace.tb_frame.f_code):
            found = (trace.tb_frame.f_code, trace.tb_lineno)
        trace = trace.tb_next
    return placed(found)


def here() -> Line | None:
    """The user's innermost line: what `placed` makes a place of, later."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lineno)


def placed(at: Line | None) -> Place | None:
    """The place of a line."""
    if at is None:
        return None
    code, line = at
    return Place(code.co_filename, line, code.co_qualname)


def place() -> Place | None:
    """The user's line that is running now."""
    return placed(here())


def site() -> Frames:
    """The user's lines that led here; equal for two calls from the same lines."""
    rows: list[Line] = []
    frame = user_frame()
    while frame is not None and len(rows) < _SITES:
        rows.append((frame.f_code, frame.f_lineno))
        frame = _up(frame.f_back)
    return tuple(rows)


def frames() -> Frames:
    """The stack outside of chainrule, libraries included."""
    stack = with_callers(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    outside = (f for f in stack if not f.f_code.co_filename.startswith(_OWN))
    return tuple([(f.f_code, f.f_lineno) for f in islice(outside, _DEEP)])


def users_line(frames: Frames) -> Place | None:
    """The innermost line of the user's own."""
    return placed(next(((code, n) for code, n in frames if not _is_passed(code)), None))
