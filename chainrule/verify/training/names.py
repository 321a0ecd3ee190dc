"""What parameters and modules are called, from the models that are seen running."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final


@final
class Names:
    """Names of parameters and modules below the models that were called from outside."""

    def __init__(self) -> None:
        self.roots: dict[int, Any] = {}
        self._params: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        self._owners: dict[int, Any] = {}
        self._kept: list[Any] = []

    def add(self, root: Any) -> None:
        """Learn the names below a model, once. A part of a model that is known is no model."""
        if id(root) in self.roots or id(root) in self._modules:
            return
        inner = [key for key, r in self.roots.items() if any(m is r for m in root.modules())]
        for key in inner:
            del self.roots[key]
        self.roots[id(root)] = root
        self._learn()

    def renew(self) -> None:
        """Learn the names again: a model may have got other parts since."""
        self._learn()

    def _learn(self) -> None:
        self._params, self._modules, self._owners = {}, {}, {}
        several = len(self.roots) > 1
        for root in self.roots.values():
            before = type(root).__name__ if several else ""
            for name, module in root.named_modules():
                full = ".".join([part for part in (before, name) if part])
                self._modules.setdefault(id(module), full or type(module).__name__)
                for own, p in module.named_parameters(recurse=False):
                    called = ".".join([part for part in (full, own) if part])
                    self._params.setdefault(id(p), called)
                    self._owners.setdefault(id(p), module)
                    self._kept.append(p)  # so that its id stays its own

    def param(self, p: Any) -> str:
        """Name of a parameter, by its shape if it is in no model."""
        return self._params.get(id(p)) or f"a tensor of shape {tuple(p.shape)}"

    def module(self, module: Any) -> str:
        """Name of a module, its class if it is in no model."""
        return self._modules.get(id(module)) or type(module).__name__

    def has(self, p: Any) -> bool:
        """Whether a parameter belongs to a model."""
        return id(p) in self._params

    def has_module(self, module: Any) -> bool:
        """Whether a module belongs to a model."""
        return id(module) in self._modules

    def owner(self, p: Any) -> Any:
        """The module that has a parameter, None if no model does."""
        return self._owners.get(id(p))

    def params(self) -> list[Any]:
        """Parameters of all models, each once."""
        every = {id(p): p for root in self.roots.values() for p in root.parameters()}
        return list(every.values())


def listed(names: Iterable[str], most: int = 6) -> str:
    """Names to read, the first few of them."""
    every = list(names)
    shown = ", ".join(every[:most])
    return shown if len(every) <= most else f"{shown} and {len(every) - most} more"
