"""Modules and parameters by number or by name: `Sequential`, lists and dicts of them.

An attribute that is a list or a dict of modules does as well. These are PyTorch's names for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, cast, final

from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError
from chainrule.nn.base.module import Module


class _Numbered(Module):
    """Members named 0, 1, ..."""

    def _all(self) -> list[Any]:
        return [m for name, m in vars(self).items() if name.isdigit()]

    def _fill(self, members: Iterable[Any]) -> None:
        """These members in place of those that there are."""
        members = list(members)
        for name in [n for n in vars(self) if n.isdigit()]:
            delattr(self, name)
        for i, member in enumerate(members):
            setattr(self, str(i), member)

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())


@final
class Sequential(_Numbered):
    """One module after the other; they are named 0, 1, ..., or as in a dict.

    >>> model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    >>> model(cr.ones((5, 2))).shape
    (5, 1)
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                setattr(self, name, module)
            return
        self._fill(modules)

    def _all(self) -> list[Any]:
        return [m for m in vars(self).values() if isinstance(m, Module)]

    def forward(self, x: Any) -> Any:
        """The last module's value."""
        for module in self._all():
            x = module(x)
        return x

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def __getitem__(self, i: Any) -> Any:
        found = self._all()[i]
        return Sequential(*found) if isinstance(i, slice) else found

    def append(self, module: Module) -> Sequential:
        """Add a module at the end; returns the sequence."""
        setattr(self, str(len(self)), module)
        return self


class _List(_Numbered):
    """A list that is looked into, not called."""

    def forward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """It has no value: call what is in it."""
        raise ConfigError(
            f"{type(self).__name__} is not called: go through it and call its members"
        )

    def __getitem__(self, i: Any) -> Any:
        found = self._all()[i]
        return cast(Any, type(self))(found) if isinstance(i, slice) else found

    def __setitem__(self, i: int, member: Any) -> None:
        every = self._all()
        every[i] = member
        self._fill(every)

    def __delitem__(self, i: Any) -> None:
        every = self._all()
        del every[i]
        self._fill(every)

    def append(self, member: Any) -> Any:
        """Add a member at the end; returns the list."""
        return self.extend([member])

    def extend(self, members: Iterable[Any]) -> Any:
        """Add members at the end; returns the list."""
        self._fill([*self._all(), *members])
        return self

    def insert(self, index: int, member: Any) -> None:
        """Add a member before another."""
        every = self._all()
        every.insert(index, member)
        self._fill(every)


def _check_members(what: str, kind: type, members: Iterable[Any]) -> list[Any]:
    every = list(members)
    for member in every:
        if not isinstance(member, kind):
            raise ConfigError(f"{what}: its members are {kind.__name__}s, not {member!r}")
    return every


@final
class ModuleList(_List):
    """A list of modules.

    >>> layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    >>> len(layers), len(list(layers.parameters()))
    (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self._fill(modules or [])

    def _fill(self, members: Iterable[Any]) -> None:
        super()._fill(_check_members("ModuleList", Module, members))


@final
class ParameterList(_List):
    """A list of tensors; those that require a gradient are parameters.

    >>> p = nn.ParameterList([cr.tensor([1.0], requires_grad=True) for _ in range(3)])
    >>> len(p)
    3
    """

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        self._fill(values or [])

    def _fill(self, members: Iterable[Any]) -> None:
        super()._fill(_check_members("ParameterList", Tensor, members))


class _Dict(Module):
    """Members by name."""

    def _names(self) -> list[str]:
        return [n for n in vars(self) if n != "training" and not n.startswith("_")]

    def forward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """It has no value: call what is in it."""
        raise ConfigError(
            f"{type(self).__name__} is not called: go through it and call its members"
        )

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise ConfigError(
                f"{type(self).__name__}: no '{name}' among {', '.join(self._names())}"
            )
        return vars(self)[name]

    def __setitem__(self, name: str, member: Any) -> None:
        if not name or "." in name or hasattr(type(self), name):
            raise ConfigError(
                f"{type(self).__name__}: {name!r} cannot be a name of a member: names are strings "
                "without a point that are no methods"
            )
        setattr(self, name, member)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self, name)

    def __contains__(self, name: str) -> bool:
        return name in self._names()

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def keys(self) -> list[str]:
        """The names."""
        return self._names()

    def values(self) -> list[Any]:
        """The members."""
        return [vars(self)[n] for n in self._names()]

    def items(self) -> list[tuple[str, Any]]:
        """Names and members."""
        return [(n, vars(self)[n]) for n in self._names()]

    def update(self, members: Mapping[str, Any]) -> None:
        """Add members, or put them in the place of those of their names."""
        for name, member in members.items():
            self[name] = member


@final
class ModuleDict(_Dict):
    """Modules by name.

    >>> heads = nn.ModuleDict({"digit": nn.Linear(4, 10), "sign": nn.Linear(4, 1)})
    >>> heads["digit"](cr.ones((2, 4))).shape
    (2, 10)
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        members = dict(modules or {})
        _check_members("ModuleDict", Module, members.values())
        self.update(members)


@final
class ParameterDict(_Dict):
    """Tensors by name; those that require a gradient are parameters.

    >>> p = nn.ParameterDict({"w": cr.tensor([1.0, 2.0], requires_grad=True)})
    >>> list(p)
    ['w']
    """

    def __init__(self, values: Mapping[str, Tensor] | None = None) -> None:
        members = dict(values or {})
        _check_members("ParameterDict", Tensor, members.values())
        self.update(members)
