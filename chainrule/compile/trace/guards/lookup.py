"""Where an attribute comes from, found without running any code of the object's."""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from sys import modules
from types import (
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, final

from chainrule.compile.trace.guards.places import ABSENT

_DICT = type.__dict__["__dict__"].__get__


@final
@dataclass(slots=True)
class Attribute:
    """An attribute: its value (`UNKNOWN` where code computes it), and where it was looked for."""

    value: Any
    dicts: list[tuple[dict[str, Any], Any]] = field(
        default_factory=list["tuple[dict[str, Any], Any]"]
    )
    """Dictionaries in which the name was looked up, with what was found there."""
    slot: bool = False
    """Whether it lies in the object itself, in no dictionary."""
    method: Any = None
    """The function that a method of this name runs, where it is one written in Python."""


UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "unknown"})()


def names_of(cls: type) -> dict[str, Any] | None:
    """The dictionary of a class's own attributes, None if it cannot be had."""
    proxy: MappingProxyType[str, Any] = _DICT(cls)
    found = [x for x in gc.get_referents(proxy) if type(x) is dict]
    return found[0] if len(found) == 1 else None


def instance_dict(x: Any) -> dict[str, Any] | None:
    """The dictionary of an object's own attributes, None if it has none."""
    try:
        found = object.__getattribute__(x, "__dict__")
    except (AttributeError, TypeError):
        return None
    return found if type(found) is dict else None


def _in_classes(classes: Sequence[type], name: str, found: Attribute) -> Any:
    """What the first of the classes that has the name has there; notes where it was looked for."""
    for base in classes:
        names = names_of(base)
        if names is None:
            value = vars(base).get(name, ABSENT)
            if value is not ABSENT:
                return value
            continue
        value = names.get(name, ABSENT)
        if base.__flags__ & _CHANGEABLE:
            found.dicts.append((names, value))
        if value is not ABSENT:
            return value
    return ABSENT


def _after(x: Any) -> Sequence[type]:
    """The classes in which a `super()` looks attributes up."""
    order: Sequence[type] = x.__self_class__.__mro__
    return order[order.index(x.__thisclass__) + 1 :]


_CHANGEABLE = 1 << 9
"""The flag of classes that are made by Python code, whose attributes can be assigned."""


def attribute(x: Any, name: str) -> Attribute:
    """The attribute `x.name`."""
    found = Attribute(UNKNOWN)
    if isinstance(x, ModuleType):
        names = vars(x)
        value = names.get(name, ABSENT)
        if value is ABSENT and x is modules.get("chainrule"):
            getattr(x, name, None)  # its names become globals when they are first asked for
            value = names.get(name, ABSENT)
        if value is not ABSENT:
            found.dicts.append((names, value))
            found.value = value
    elif name == "__dict__":
        found.value = instance_dict(x) or UNKNOWN
    elif type(x) is super:
        _unbind(_in_classes(_after(x), name, found), found)
    elif isinstance(x, type):
        value = _in_classes(x.__mro__, name, found)
        _unbind(value, found)
    else:
        _of_object(x, name, found)
    return found


def _of_object(x: Any, name: str, found: Attribute) -> None:
    """Look an attribute of an object up, as Python would without a `__getattr__`."""
    value = _in_classes(type(x).__mro__, name, found)
    if isinstance(value, MemberDescriptorType | GetSetDescriptorType) and name != "__dict__":
        found.slot = True
        try:
            found.value = value.__get__(x)
        except AttributeError:
            found.value = UNKNOWN
        return
    if value is not ABSENT and hasattr(type(value), "__set__"):
        return  # a property, or what works like one: its code tells what it reads
    names = instance_dict(x)
    if names is not None:
        mine = names.get(name, ABSENT)
        if mine is not ABSENT:
            found.dicts = [(names, mine)]
            found.value = mine
            return
        found.dicts.append((names, ABSENT))
    elif value is ABSENT and not hasattr(type(x), "__getattr__"):
        found.value = getattr(x, name, UNKNOWN)  # an attribute that only its class's code knows
        found.slot = True
        return
    _unbind(value, found)


def _unbind(value: Any, found: Attribute) -> None:
    """What is known of an attribute of a class: not what a descriptor makes of it."""
    if isinstance(value, classmethod | staticmethod):
        found.method = value.__func__
    elif isinstance(value, FunctionType):
        found.method = value
    elif value is not ABSENT and not hasattr(type(value), "__get__"):
        found.value = value


def bound_objects(f: Any) -> Iterable[Any]:
    """What a callable brings along: the objects to which its arguments are bound, its defaults."""
    todo, seen = [f], set[int]()
    for x in todo:
        if id(x) in seen:
            continue
        seen.add(id(x))
        yield x
        if isinstance(x, MethodType):
            todo += [x.__self__, x.__func__]
        elif isinstance(x, FunctionType):
            todo += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        elif isinstance(x, partial):
            todo += [x.func, *x.args, *x.keywords.values()]
