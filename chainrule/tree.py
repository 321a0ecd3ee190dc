"""Nested containers: dicts, lists, tuples, named tuples and dataclasses of anything.

A tree is taken apart into its leaves and a `Structure` that can put others in their places. None is
an empty tree, as in JAX; everything that is not a container is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, cast

from chainrule.errors import DtypeError
from chainrule.names.jax_names import tree_advice
from chainrule.names.spellings import missing_name_getter


@dataclass(frozen=True, slots=True)
class Structure:
    """The shape of a tree: the kind of container, its keys, its children (kind None: a leaf)."""

    kind: type | None
    keys: tuple[Any, ...]
    children: tuple[Structure, ...]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with `leaves` in order."""
        rest = iter(leaves)
        tree = self._build(rest)
        if next(rest, _END) is not _END:
            raise DtypeError(f"more leaves than {self} has places")
        return tree

    def _build(self, rest: Iterator[Any]) -> Any:
        """The container, whose leaves are taken from `rest` in order."""
        if self.kind is None:
            leaf = next(rest, _END)
            if leaf is _END:
                raise DtypeError(f"fewer leaves than {self} has places")
            return leaf
        if self.kind is type(None):
            return None
        parts = [child._build(rest) for child in self.children]
        make: Any = self.kind
        if not parts:
            return self.kind()
        if issubclass(self.kind, dict):
            return make(zip(self.keys, parts, strict=True))
        if self.keys:  # a named tuple or a dataclass
            return make(**dict(zip(self.keys, parts, strict=True)))
        return make(parts)

    def __str__(self) -> str:
        if self.kind is None:
            return "*"
        if self.keys:
            inner = ", ".join([f"{k}: {c}" for k, c in zip(self.keys, self.children, strict=True)])
        else:
            inner = ", ".join([str(c) for c in self.children])
        return f"{self.kind.__name__}({inner})"


_END = object()
_LEAF = Structure(None, (), ())


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree in order, and its structure. Dicts keep their order of insertion.

    >>> leaves, structure = flatten({"w": 1.0, "b": [2.0, None]})
    >>> leaves, str(structure)
    ([1.0, 2.0], 'dict(w: *, b: list(*, NoneType()))')
    """
    leaves: list[Any] = []
    return leaves, _take_apart(tree, leaves)


def _take_apart(tree: Any, leaves: list[Any]) -> Structure:
    keys, parts = children_of(tree)
    if parts is None:
        leaves.append(tree)
        return _LEAF
    return Structure(
        cast(object, tree).__class__, keys, tuple([_take_apart(p, leaves) for p in parts])
    )


def children_of(tree: Any) -> tuple[tuple[Any, ...], Iterable[Any] | None]:
    """Keys (none for a list or tuple) and children of a container, (.., None) for a leaf."""
    if tree is None:
        return (), ()
    if isinstance(tree, dict):
        return tuple(tree), tree.values()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(tree, tuple) and (names := getattr(cast(Any, tree), "_fields", None)):
        return names, cast(Any, tree)
    if isinstance(tree, list | tuple):
        return (), tree  # pyright: ignore[reportUnknownVariableType]
    if is_dataclass(tree) and not isinstance(tree, type) and not hasattr(tree, "eval"):
        names = tuple([f.name for f in fields(tree) if f.init])
        return names, [getattr(tree, n) for n in names]
    return (), None


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`f` applied to the leaves of trees of one structure, in a tree of that structure.

    >>> cr.tree_map(lambda a, b: a + b, {"w": 1}, {"w": 2})
    {'w': 3}
    """
    leaves, structure = flatten(tree)
    others: list[list[Any]] = []
    for other in rest:
        more, its = flatten(other)
        if its != structure:
            raise DtypeError(f"the trees differ: {structure} and {its}")
        others.append(more)
    return structure.unflatten([f(*xs) for xs in zip(leaves, *others, strict=True)])


__getattr__ = missing_name_getter(__name__, tree_advice)
