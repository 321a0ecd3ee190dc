"""What a Function's arguments hold.

Modules whose parameters are arguments as well, as of a differential equation whose right side is a
network: what the Function does with the module, it does with them. And lists and dictionaries of
tensors, as of running statistics: every run is to find them as the call found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor
from torch.nn import Module
from torch.utils import _pytree as pytree

from chainrule.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Holding:
    """A module as it was, some of whose parameters, by name, are arguments, by number."""

    module: Module
    held: Mapping[str, int]

    def at(self, args: Sequence[Any]) -> Module:
        """The module with these arguments as its parameters."""
        made = deepcopy(self.module)
        for name, i in self.held.items():
            path, _, last = name.rpartition(".")
            vars(made.get_submodule(path))["_parameters"][last] = args[i]
        return made


@dataclass(frozen=True, eq=False)
class ContainerSnapshot:
    """A list, tuple or dictionary as it was, with its tensors."""

    was: Any

    def at(self, args: Sequence[Any]) -> Any:
        """Another one of the same values."""
        return _copy_tensors(self.was)


_HOLDERS: Final = (dict, list, tuple)


def with_holders(args: Sequence[Any]) -> list[Any]:
    """The arguments, with what stands for the modules that hold some of them, and for what holds
    other tensors.

    Raises `ConfigError` for such a module that cannot be copied.
    """
    numbers = {id(x): i for i, x in enumerate(args) if isinstance(x, Tensor)}
    found: list[Any] = []
    for x in args:
        names = dict(x.named_parameters()) if isinstance(x, Module) else {}
        held = {name: numbers[id(p)] for name, p in names.items() if id(p) in numbers}
        if held:
            found.append(Holding(_copy(x), held))
        else:
            found.append(ContainerSnapshot(_copy_tensors(x)) if _has_tensors(x) else x)
    return found


def _has_tensors(x: Any) -> bool:
    return isinstance(x, _HOLDERS) and any(isinstance(v, Tensor) for v in pytree.tree_leaves(x))


def _copy_tensors(x: Any) -> Any:
    def copied(t: Tensor) -> Tensor:
        return t.detach().clone().requires_grad_(t.requires_grad)

    return pytree.tree_map_only(Tensor, copied, x)


def _copy(module: Module) -> Module:
    try:
        return deepcopy(module)
    except RuntimeError as cause:  # so PyTorch says that a tensor in it is no leaf
        raise ConfigError(
            f"{type(module).__name__}, an argument beside its parameters, cannot be copied: it "
            "holds a tensor with a graph; let it keep what it computes detached, or not at all"
        ) from cause


def held(args: Sequence[Any]) -> list[Any]:
    """The arguments as the call found them."""
    return [x.at(args) if isinstance(x, Holding | ContainerSnapshot) else x for x in args]
