"""Attributes of libraries, replaced while somebody looks on and put back afterwards."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast, final

_T = TypeVar("_T")


@final
class Patches:
    """Attributes that were replaced; `undo` puts all of them back.

    Who still holds a replacement afterwards (a script that imported it by name) finds `on` false,
    and calls what was there before.
    """

    def __init__(self) -> None:
        self.on = False
        """Whether anything is replaced now."""
        self._old: list[tuple[Any, str, Any, Any, bool]] = []

    def put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(what it was)`."""
        space = _space(owner)
        own = name in space
        old: Any = space[name] if own else getattr(owner, name)
        new = make(old)
        setattr(owner, name, new)
        self._old.append((owner, name, old, new, own))
        self.on = True

    def around(self, owner: Any, name: str, call: Callable[..., Any]) -> None:
        """Let every call of `owner.name` be one of `call(what it was, *its arguments)`."""

        def make(f: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(f)
            def observed(*args: Any, **kwargs: Any) -> Any:
                return call(f, *args, **kwargs) if self.on else f(*args, **kwargs)

            return observed

        self.put(owner, name, make)

    def around_class_method(self, level: Any, name: str, call: Callable[..., Any]) -> None:
        """The same of a class method, `call(what it was, the class, *its arguments)`; `level` is
        the class where it is replaced, which may only inherit it."""

        def make(old: Any) -> Any:
            run = _for_class(old, level, name)

            def observed(cls: Any, *args: Any, **kwargs: Any) -> Any:
                return call(run, cls, *args, **kwargs) if self.on else run(cls, *args, **kwargs)

            return classmethod(observed)

        self.put(level, name, make)

    def before(self, owner: Any, name: str, tell: Callable[..., object]) -> None:
        """Let every call of `owner.name` begin with `tell(*its arguments)`, whose failure nobody
        notices."""

        def call(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            self.tried(lambda: tell(*args, **kwargs))
            return f(*args, **kwargs)

        self.around(owner, name, call)

    def after(self, owner: Any, name: str, tell: Callable[..., object]) -> None:
        """Let every call of `owner.name` that returns end with `tell(result, *its arguments)`,
        whose failure nobody notices."""

        def call(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            result = f(*args, **kwargs)
            if self.on:
                self.tried(lambda: tell(result, *args, **kwargs))
            return result

        self.around(owner, name, call)

    def undo(self) -> None:
        """Put back what was there, but for attributes that somebody replaced since then."""
        self.on = False
        for owner, name, old, new, own in reversed(self._old):
            if _space(owner).get(name) is not new:
                continue  # whoever came later holds on to ours, which does nothing any more
            if own:
                setattr(owner, name, old)
            else:
                delattr(owner, name)
        self._old.clear()

    def tried(self, look: Callable[[], _T]) -> _T | None:
        """What `look()` finds, None if it fails: the program that is looked at must not notice."""
        try:
            return look()
        except Exception:
            return None


def _for_class(old: Any, level: Any, name: str) -> Callable[..., Any]:
    """A class method that is replaced, as a function of the class that it is called on."""
    inner: Any = getattr(old, "__func__", None)

    def run(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if inner is not None:
            return inner(cls, *args, **kwargs)
        above = cast("Any", super(level, cls))
        return getattr(above, name)(*args, **kwargs)

    return run


def _space(owner: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(owner))
