"""Saving a trace: a file's suffix says as what."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from chainrule.errors import ConfigError
from chainrule.files.whole_files import write_whole
from chainrule.traces.drawing import drawing_of
from chainrule.traces.files import to_json
from chainrule.traces.trace import Trace


def _play() -> Any:
    """What makes pages of traces, which stands above this file."""
    return import_module("chainrule.studio.play")


WRITERS: dict[str, Callable[[Trace], str]] = {
    ".html": lambda trace: _play().trace_page(trace),
    ".json": to_json,
    ".svg": lambda trace: drawing_of(trace).svg(),
    ".dot": lambda trace: drawing_of(trace).dot(),
    ".txt": lambda trace: drawing_of(trace).text(),
}
"""What writes files of each suffix."""


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write the file whole, or not at all. Raises `ConfigError` for a suffix that nobody writes."""
    target = Path(path)
    write = WRITERS.get(target.suffix.lower())
    if write is None:
        known = ", ".join(WRITERS)
        raise ConfigError(f"save: {target.name!r} must end in one of {known}, which says how")
    if not target.parent.is_dir():
        raise ConfigError(f"save: there is no folder {str(target.parent)!r} to write to")
    write_whole(target, write(trace))


def shown_forms(trace: Trace) -> dict[str, str]:
    """What a notebook may choose from, by media type."""
    play = _play()
    return {
        "text/html": play.embedded(play.trace_page(trace)),
        "image/svg+xml": str(drawing_of(trace).svg()),
        "text/plain": repr(trace),
    }
