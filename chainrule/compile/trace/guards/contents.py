"""Objects that are read as a whole: all that a container holds, all attributes of an object."""

# Whatever a user's program holds is looked at here: nothing is known of its type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextvars import ContextVar
from dataclasses import is_dataclass
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from chainrule.compile.trace.guards.lookup import instance_dict
from chainrule.compile.trace.guards.notes import Notes
from chainrule.compile.trace.guards.places import ABSENT, Reading
from chainrule.compile.trace.guards.values import is_value, keep_weakly
from chainrule.engine.node import Variable


def contents(notes: Notes, x: Any, *, deep: bool = False) -> None:
    """All that a container holds is read; of other objects, if `deep`, all attributes."""
    if is_value(x) or not notes.is_outer(x):
        return
    if (id(x), deep) in notes.whole or (id(x), True) in notes.whole:
        return
    if isinstance(x, np.ndarray):
        notes.inspected.setdefault(id(x), notes.reading(x))
    elif isinstance(x, tuple):
        for part in x:
            contents(notes, part, deep=deep)
    elif type(x) is dict:
        notes.whole.add((id(x), deep))
        _whole_names(notes, x, notes.text(x), deep)
    elif isinstance(x, list):
        notes.whole.add((id(x), deep))
        notes.items_of(x)
        for i, part in enumerate(x):
            notes.item(x, i)
            contents(notes, part, deep=deep)
    elif not isinstance(x, ModuleType | type | FunctionType | MethodType | Variable):
        notes.whole.add((id(x), deep))
        _whole_object(notes, x, deep)


def _whole_names(notes: Notes, x: dict[Any, Any], text: str, deep: bool) -> None:
    for key, value in list(x.items()):
        notes.entry(x, key, f"{text}[{key!r}]")
        contents(notes, value, deep=deep)
    notes.names_of(x).key_order = list(x), Reading(text, notes.line)


def _whole_object(notes: Notes, x: Any, deep: bool) -> None:
    """All that an object holds that is no list and no plain dictionary."""
    reading = notes.reading(x)
    if isinstance(x, ContextVar):
        notes.answer(lambda: x.get(ABSENT), x.get(ABSENT), reading.name)
    elif isinstance(x, Set):
        notes.ask(lambda: frozenset(x), frozenset(x), reading)
    elif isinstance(x, Mapping):
        notes.ask(lambda: _flat(x), _flat(x), reading)
    elif isinstance(x, Sequence) and not isinstance(x, str | bytes):
        notes.ask(lambda: list(x), list(x), reading)
        for part in x:
            notes.add(part, reading.name)
    elif _is_ours(x):
        return
    elif (deep or is_dataclass(x)) and (names := instance_dict(x)) is not None:
        _whole_names(notes, names, reading.name, deep)


def public_contents(notes: Notes, x: Any) -> None:
    """All attributes of a layer, and of layers in it, are read; private ones are its own."""
    names = instance_dict(x)
    if not notes.is_outer(x) or (id(x), "public") in notes.whole or names is None:
        return
    notes.whole.add((id(x), "public"))
    weak = keep_weakly(x, notes.guards.invalidate)

    def public() -> list[str]:
        return [name for name in instance_dict(weak()) or () if name[0] != "_"]

    notes.ask(public, public(), notes.reading(x))
    for name in public():
        notes.entry(names, name, f"{notes.text(x)}.{name}")
        part = names[name]
        contents(notes, part)
        for layer in part if isinstance(part, list | tuple) else [part]:
            if not isinstance(layer, Variable) and is_layer(layer):
                public_contents(notes, layer)


def _flat(x: Mapping[Any, Any]) -> list[Any]:
    return [part for pair in x.items() for part in pair]


def _is_ours(x: Any) -> bool:
    """Whether an object is chainrule's own, of which the trace knows what it reads."""
    return any(c.__module__.startswith("chainrule.") for c in type(x).__mro__[:-1])


def is_layer(x: Any) -> bool:
    """Whether x is a `Module`, whose private attributes are its own."""
    return any(c.__module__ == "chainrule.nn.base.module" for c in type(x).__mro__[:-1])
