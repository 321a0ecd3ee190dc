"""Saving a trace: a file's suffix says as what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chainrule.errors import ConfigError
from chainrule.traces.drawing import drawing_of
from chainrule.traces.files import to_json
from chainrule.traces.trace import Trace
from chainrule.whole_files import write_whole



def _html(trace: Trace) -> str:
    from chainrule.studio.play import trace_page  # which shows traces

    return trace_page(trace)


WRITERS: dict[str, Callable[[Trace], str]] = {
    ".html": _html,
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
    from chainrule.studio.play import embedded, trace_page  # which shows traces

    return {
        "text/html": embedded(trace_page(trace)),
        "image/svg+xml": str(drawing_of(trace).svg()),
        "text/plain": repr(trace),
    }
