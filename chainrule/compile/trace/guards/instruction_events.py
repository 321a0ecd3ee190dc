"""How Python reports which instructions run in this thread: a mechanism for each version."""

from __future__ import annotations

import sys
from typing import Any, final

if sys.version_info >= (3, 12):
    from chainrule.compile.trace.guards.monitoring import report_to as report_to
else:
    from chainrule.compile.trace.guards.settrace import report_to as report_to

_CHEAP = sys.version_info < (3, 12)
"""Whether a trace function is set, and costs little to switch. Later the engine's code runs without
events anyway."""


@final
class unfollowed:  # noqa: N801 - a context manager, made once for each op
    """Within it nothing is reported: this package's own code runs, thousands of short functions."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before: Any = sys.gettrace() if _CHEAP else None
        if self._before is not None:
            sys.settrace(None)

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            sys.settrace(self._before)
