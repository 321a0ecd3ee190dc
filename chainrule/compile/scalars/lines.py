"""The lines of a program that made its Values, noted while it is recorded."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from chainrule.compile.scalars.ints.gather import item
from chainrule.engine.provenance import is_inside
from chainrule.scalar import Value

Lines = dict[int, tuple[CodeType, int]]
"""By the `id` of a Value the code that asked for it, and the offset of the instruction."""
_WRITTEN = "<Value "
"""The start of the file names of code that is written from the op table."""


@contextmanager
def noting_lines(lines: Lines) -> Generator[None]:
    """Within it the lines that make Values are noted; not while a profiler runs, which sees calls
    in the same way."""

    def note(frame: FrameType, event: str, found: Any) -> None:
        code = frame.f_code
        if event != "return" or type(found) is not Value or not _is_ours(code):
            return
        if code is item.__code__:  # which gives what is there
            return
        caller = frame.f_back
        while caller is not None and _is_ours(caller.f_code):
            caller = caller.f_back
        if caller is not None:
            lines[id(found)] = caller.f_code, caller.f_lasti

    if sys.getprofile() is not None:
        yield
        return
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_WRITTEN) or is_inside(code)


def in_words(at: Mapping[str, set[int]]) -> str:
    """`line 3 of a.py`, for line numbers by file."""
    parts: list[str] = []
    for file, numbers in at.items():
        found = sorted(numbers)
        few = ", ".join(map(str, found[:MOST])) + (", ..." if len(found) > MOST else "")
        parts.append(f"line{'s' if len(found) > 1 else ''} {few} of {file}")
    return " and ".join(parts)


MOST = 3
"""So many lines are named."""
