"""What parameters and modules are called, and which modules have them.

Names come from the models that are seen running. What no running model has is looked for among all
objects that are alive. What is known of a value while it lives is in an `IdentityTable`.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar, final

from chainrule.verify.training.record.engine import Engine

_T = TypeVar("_T")


@final
class IdentityTable(Generic[_T]):
    """Rows by value; one is gone when its value is. `changed` is called whenever any comes or
    goes."""

    def __init__(self, changed: Callable[[], object] = lambda: None) -> None:
        self._rows: dict[int, tuple[weakref.ref[Any], _T]] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, value: Any, row: _T) -> None:
        """Know something of a value, while it lives."""
        key = id(value)
        self._rows[key] = weakref.ref(value, lambda _: self._gone(key)), row
        self._changed()

    def of(self, value: Any) -> _T | None:
        """What is known of it; None if nothing is."""
        row = self._rows.get(id(value))
        return row[1] if row is not None and row[0]() is value else None

    def items(self) -> list[tuple[Any, _T]]:
        """The values that live, and what is known of them."""
        return [(x, row) for ref, row in self._rows.values() if (x := ref()) is not None]

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()

    def _gone(self, key: int) -> None:
        self._rows.pop(key, None)
        self._changed()


@final
class Names:
    """Names of parameters and modules below the models that were called from outside."""

    def __init__(self) -> None:
        self.roots: dict[int, tuple[Engine, Any]] = {}
        self._params: dict[int, tuple[str, Any]] = {}
        self._modules: dict[int, str] = {}
        self._owners: dict[int, Any] = {}

    def add(self, engine: Engine, root: Any) -> None:
        """Learn the names below a model, once. A part of a model that is known is no model."""
        if id(root) in self._modules:
            return
        inside = {id(m) for _, m in engine.modules(root)}
        self.roots = {key: row for key, row in self.roots.items() if key not in inside}
        self.roots[id(root)] = (engine, root)
        self.renew()

    def renew(self) -> None:
        """Learn the names again: a model may have got other parts since."""
        self._modules, self._owners = {}, {}
        several = len(self.roots) > 1
        for engine, root in self.roots.values():
            before = type(root).__name__ if several else ""
            for name, module in engine.modules(root):
                full = ".".join([part for part in (before, name) if part])
                self._modules.setdefault(id(module), full or type(module).__name__)
                for own, p in engine.own(module):
                    called = ".".join([part for part in (full, own) if part])
                    self._params[id(p)] = (called, p)  # held, so that its id stays its own
                    self._owners.setdefault(id(p), module)

    def param(self, p: Any) -> str:
        """Name of a parameter, by its shape if it is in no model."""
        row = self._params.get(id(p))
        return row[0] if row else f"a tensor of shape {tuple(p.shape)}"

    def module(self, module: Any) -> str:
        """Name of a module, its class if it is in no model."""
        return self._modules.get(id(module)) or type(module).__name__

    def has(self, p: Any) -> bool:
        """Whether a parameter belongs to a model, as it is now."""
        return id(p) in self._owners

    def has_module(self, module: Any) -> bool:
        """Whether a module belongs to a model."""
        return id(module) in self._modules

    def owner(self, p: Any) -> Any:
        """The module that has a parameter, None if no model does."""
        return self._owners.get(id(p))

    def within(self, root: Any) -> list[Any]:
        """Parameters of a model, each once."""
        engine = self.roots[id(root)][0]
        every = {id(p): p for _, m in engine.modules(root) for _, p in engine.own(m)}
        return list(every.values())

    def known(self) -> list[Any]:
        """Parameters of all models, as they were when their names were learned last."""
        return [p for _, p in self._params.values()]

    def params(self) -> list[Any]:
        """Parameters of all models, each once."""
        every = {id(p): p for _, root in self.roots.values() for p in self.within(root)}
        return list(every.values())


def join_names(names: Iterable[str], most: int = 6) -> str:
    """Names to read, the first few of them."""
    every = list(names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"


def owners(values: Sequence[Any], part: str) -> list[Any]:
    """Modules that have some of the values among their `_parameters` or `_modules`.

    Args:
        values: Parameters or modules.
        part: `_parameters` or `_modules`.
    """
    tables: list[Any] = [r for r in gc.get_referrers(*values) if type(r) is dict]
    if not tables:
        return []
    some: list[Any] = gc.get_referrers(*tables)
    spaces: list[Any] = [r for r in some if type(r) is dict and _has(r, part, tables)]
    some += gc.get_referrers(*spaces) if spaces else []  # a `__dict__`, and whose it is
    found = [r for r in some if type(r) is not dict and _has(_space(r), part, tables)]
    return list({id(m): m for m in found}.values())


def _space(x: Any) -> Any:
    return getattr(x, "__dict__", {})


def _has(space: Any, part: str, tables: list[Any]) -> bool:
    return any(space.get(part) is table for table in tables)


def like_optimizers(optimizer: Any) -> list[Any]:
    """All optimizers of its library that there are."""
    bases: tuple[type[Any], ...] = type(optimizer).__mro__
    base = next((c for c in bases if c.__name__ == "Optimizer"), bases[0])
    return [o for o in gc.get_objects() if issubclass(type(o), base)]


def parameter_names(kind: type, called: Callable[[Any], str] = lambda module: "") -> dict[int, str]:
    """Names of the parameters of all modules of a kind, by ids, the longest for each; those of a
    module that is no part of another one begin with what it is `called`.

    It looks through all that there is, which takes tenths of a second.
    """
    names: dict[int, str] = {}
    for module in [o for o in gc.get_objects() if issubclass(type(o), kind)]:
        before = called(module)
        for name, parameter in module.named_parameters():
            full = f"{before}.{name}" if before and "." not in name else name
            if len(full) > len(names.get(id(parameter), "")):
                names[id(parameter)] = full
    return names
