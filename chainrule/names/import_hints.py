"""Imports of names that do not exist here are answered as attributes are: with what to write.

Python asks the finders of `sys.meta_path`, one after the other, for the module `chainrule.cat` when
it meets `from chainrule import cat` or `import chainrule.cat`. Ours is the last that is asked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

PACKAGE = "chainrule"


class ImportHints:
    """A finder that finds nothing: it raises where the package says what to write for a name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """An `ImportError` with the hint of the parent's `AttributeError`, if it has one."""
        parent, _, name = fullname.rpartition(".")
        if parent.partition(".")[0] != PACKAGE or parent not in sys.modules:
            return
        try:
            getattr(sys.modules[parent], name)
        except AttributeError as error:
            hint = str(error).partition(f"'{name}': ")[2]
            if hint:
                raise ImportError(f"cannot import '{name}' from '{parent}': {hint}") from None


def answer_imports() -> None:
    """Let imports from the package say what to write, from now on."""
    if not any(type(finder) is ImportHints for finder in sys.meta_path):
        sys.meta_path.append(ImportHints())
