"""Warnings for functions that are compiled again and again."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, final

from chainrule.compile.trace.guards.places import Reading

MANY = 8
"""After how many traces for one changing number `jit` warns."""


CHANGES = 3
"""After how many traces for one thing that the function reads `jit` warns."""


class RetraceWarning(UserWarning):
    """A compiled function is compiled again and again, for each new value of an argument or of
    something that it reads."""


@final
class Retraces:
    """For which values of each integer argument a function was traced."""

    def __init__(self) -> None:
        self._values: dict[tuple[int, int], set[int]] = {}
        self._changes: Counter[str] = Counter()

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

    def note_change(self, name: str, reading: Reading, old: Any, new: Any) -> None:
        """The function was traced because what it reads has changed: warn at the third time."""
        self._changes[reading.name] += 1
        if self._changes[reading.name] == CHANGES:
            warnings.warn(
                f"jit: {name} was compiled again {CHANGES} times because {reading.name}, which it "
                f"reads at {reading.line}, changed (now from {_short(old)} to {_short(new)}): give "
                "it as an argument (a float or a tensor if only its value matters), or keep it in "
                "a tensor",
                RetraceWarning,
                stacklevel=4,
            )


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 40 else f"{text[:37]}..."
