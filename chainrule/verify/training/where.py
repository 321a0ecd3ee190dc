"""The user's line that is running now: innermost frame that is in no installed package."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType

from chainrule.verify.place import Place

_CHAINRULE = str(Path(__file__).resolve().parents[2])
_paths = sysconfig.get_paths()
_FOREIGN = tuple(
    {_CHAINRULE, _paths["stdlib"], _paths["platstdlib"], _paths["purelib"], _paths["platlib"]}
)
_SITES = 8
"""How many frames tell two calls apart."""
_HANDS_ON = ("__torch_function__", "__torch_dispatch__")

_foreign: dict[str, bool] = {}

Site = tuple[tuple[CodeType, int], ...]
"""Where a call comes from: the user's frames, innermost first, as code and line."""


def is_foreign(file: str) -> bool:
    """Whether a file belongs to Python, to an installed package or to chainrule itself."""
    known = _foreign.get(file)
    if known is None:
        known = _foreign[file] = file.startswith((*_FOREIGN, "<frozen"))
    return known


def _is_passed(code: CodeType) -> bool:
    """Whether a frame only hands on what the user's line asked for."""
    return code.co_name in _HANDS_ON or is_foreign(code.co_filename)


def _up(frame: FrameType | None) -> FrameType | None:
    while frame is not None and _is_passed(frame.f_code):
        frame = frame.f_back
    return frame


def user_frame() -> FrameType | None:
    """The innermost frame of the user's, or None if there is none."""
    return _up(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]


def here() -> tuple[CodeType, int] | None:
    """Code and line of the user's innermost frame: what `placed` makes a `Place` of, later."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lineno)


def placed(at: tuple[CodeType, int] | None) -> Place | None:
    """The place of what `here` returned."""
    if at is None:
        return None
    code, line = at
    return Place(code.co_filename, line, code.co_qualname)


def place() -> Place | None:
    """The user's line that is running now."""
    return placed(here())


def site() -> Site:
    """The user's frames that led here; equal for two calls from the same lines."""
    rows: list[tuple[CodeType, int]] = []
    frame = user_frame()
    while frame is not None and len(rows) < _SITES:
        rows.append((frame.f_code, frame.f_lineno))
        frame = _up(frame.f_back)
    return tuple(rows)
