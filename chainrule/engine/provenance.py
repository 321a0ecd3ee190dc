"""Which line of the user's made this: cheap to note for every node, resolved only when asked.

A source location is kept as a code object and an instruction offset, which costs two attribute
reads. File and line are looked up when a message or a picture needs them.
"""

from __future__ import annotations

import os
import sys
from types import CodeType

import numpy as np

from chainrule.engine.source_text import display_line, source_line

_PACKAGE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
HERE = (_PACKAGE + os.sep, os.path.dirname(np.__file__) + os.sep)  # noqa: PTH120
"""This package, and NumPy's, which hands ops on. (pathlib takes long to import.)"""
frame_at = sys._getframe  # pyright: ignore[reportPrivateUsage]
"""The frame so many calls up."""
_inside: set[str] = set()
user_files: set[str] = set()
"""Files outside it that were met so far."""


def user_line(depth: int = 2) -> tuple[CodeType, int]:
    """Code object and instruction offset of the innermost frame outside this package and NumPy.

    If every frame is inside (a command of ours is running), it is the outermost one. Of the frames
    from here on the first `depth` are inside; to look at a frame makes an object of it.
    """
    frame = frame_at(depth)
    while (file := (code := frame.f_code).co_filename) not in user_files:
        if file not in _inside:
            (_inside if file.startswith(HERE) else user_files).add(file)
        elif (back := frame.f_back) is not None:
            frame = back
        else:
            break
    return code, frame.f_lasti


def is_inside(code: CodeType) -> bool:
    """Whether this is code of this package's or of NumPy's."""
    return code.co_filename.startswith(HERE)


def line_of(code: CodeType, at: int) -> int:
    r"""Line number of the instruction at offset `at`.

    >>> code = compile("a = 1\nb = 2", "x.py", "exec")
    >>> line_of(code, len(code.co_code) - 2)
    2
    """
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= at < end and number is not None:
            line = number
    return line


def location(code: CodeType, at: int) -> str:
    """`file:line` of an instruction, in a notebook `In[3]:line`."""
    return display_line(f"{code.co_filename}:{line_of(code, at)}")


def source_quote(code: CodeType, at: int) -> str:
    """The line of an instruction, as a line below a message; empty if nobody knows its text."""
    text = source_line(code.co_filename, line_of(code, at)).strip()
    return f"\n    {location(code, at)}:  {text}" if text else ""
