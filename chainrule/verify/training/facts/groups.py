"""Modules that the program calls one by one, though it keeps them together: one flow of gradients.

`for layer in layers: h = layer(h).tanh()` calls no model. Each layer is one for itself, and what
happens from the last to the first of them is seen only if they are looked at as what they are.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chainrule.verify.training.facts.names import owners

_LEAST = 3
"""Modules that make a flow."""


@dataclass(frozen=True)
class Group:
    """Modules that something holds side by side."""

    name: str
    """The class of what holds them."""
    modules: Mapping[int, Any]
    """By id."""
    labels: Mapping[int, str]
    """By id: what they are called there."""


def group_modules(modules: Sequence[Any]) -> list[Group]:
    """Lists, and modules, that hold at least three of the modules. Each is in one group only, the
    largest."""
    ids = {id(m) for m in modules} if len(modules) >= _LEAST else set[int]()
    groups: list[Group] = []
    for holder, held in sorted(_holders(modules) if ids else (), key=lambda row: -len(row[1])):
        found = {id(m): (label, m) for label, m in held.items() if id(m) in ids}
        if len(found) >= _LEAST:
            labels = {key: label for key, (label, _) in found.items()}
            group = {key: m for key, (_, m) in found.items()}
            groups.append(Group(type(holder).__name__, group, labels))
            ids -= found.keys()
    return groups


def _holders(modules: Sequence[Any]) -> Iterator[tuple[object, dict[str, Any]]]:
    """Lists and modules that have some of the modules, and all that they have by its name."""
    for r in gc.get_referrers(*modules):
        if type(r) in (list, tuple) and r is not modules:
            yield r, {str(i): m for i, m in enumerate(r)}
    for owner in owners(modules, "_modules"):
        yield owner, dict(owner._modules)
