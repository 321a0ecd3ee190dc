"""Which function Python tells of what runs in this thread (`sys.settrace`)."""

from __future__ import annotations

import sys
from typing import Any, final

_CHEAP = sys.version_info < (3, 12)
"""Whether it costs little to switch: later interpreters change all code when they are told."""


@final
class unfollowed:  # noqa: N801 - a context manager, made once for each op
    """Within it nobody is told: this package's own code runs, thousands of short functions."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before: Any = sys.gettrace() if _CHEAP else None
        if self._before is not None:
            sys.settrace(None)

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            sys.settrace(self._before)
