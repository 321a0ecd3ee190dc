"""A warning for functions that are compiled again and again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, final

MANY = 8
"""After how many traces for one changing number `jit` warns."""


class RetraceWarning(UserWarning):
    """A compiled function is compiled again and again, for each new value of an argument."""


@final
class Retraces:
    """For which values of each integer argument a function was traced."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], set[int]] = {}

    def note(self, name: str, leaves: Sequence[Any]) -> None:
        """The function was traced for these arguments: warn when it was for many values of one."""
        for i, x in enumerate(leaves):
            if not isinstance(x, int) or isinstance(x, bool):
                continue
            seen = self._values.setdefault((i, len(leaves)), set())
            seen.add(x)
            if len(seen) == MANY:
                warnings.warn(
                    f"jit: {name} was compiled for {MANY} values of one integer argument "
                    f"({', '.join([str(v) for v in sorted(seen)])}): each new one is compiled "
                    "again. If only its value matters, and no shape, give it as a tensor or float",
                    RetraceWarning,
                    stacklevel=4,
                )
