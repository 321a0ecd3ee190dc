"""Functions of libraries, replaced while a script is observed and put back afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast


class Patches:
    """Attributes that were replaced; `undo` puts all of them back."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any, Any, bool]] = []

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(what it was)`."""
        space = _space(owner)
        own = name in space
        old: Any = space[name] if own else getattr(owner, name)
        new = make(old)
        setattr(owner, name, new)
        self._old.append((owner, name, old, new, own))

    def undo(self) -> None:
        """Put back what was there, but for attributes that somebody replaced since then."""
        for owner, name, old, new, own in reversed(self._old):
            if _space(owner).get(name) is not new:
                continue  # whoever came later holds on to ours, which does nothing any more
            if own:
                setattr(owner, name, old)
            else:
                delattr(owner, name)
        self._old.clear()


def _space(owner: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(owner))
