"""Functions of a framework, replaced while somebody looks on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast, final

_T = TypeVar("_T")
_MISSING = object()


@final
class Patched:
    """Attributes that were replaced. Who still holds a replacement afterwards (a script that
    imported it by name) finds `on` false, and calls what was there before."""

    def __init__(self) -> None:
        self.on = False
        self._old: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by what `make` makes of it."""
        own: Any = cast("dict[str, Any]", vars(owner)).get(name, _MISSING)
        new = make(getattr(owner, name))
        setattr(owner, name, new)
        self._old.append((owner, name, own, new))
        self.on = True

    def undo(self) -> None:
        """Put back what was there, unless somebody else has replaced it since."""
        self.on = False
        for owner, name, own, new in reversed(self._old):
            if cast("dict[str, Any]", vars(owner)).get(name) is not new:
                continue
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        self._old.clear()

    def tried(self, look: Callable[[], _T]) -> _T | None:
        """What `look()` finds, None if it fails: the program that is looked at must not notice."""
        try:
            return look()
        except Exception:
            return None
