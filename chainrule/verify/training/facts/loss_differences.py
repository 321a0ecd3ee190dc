"""Whether a difference is all that a loss is made of: its squares, or sizes, added up."""

from __future__ import annotations

from typing import Any

_NUMBERS = frozenset(
    {"pow", "square", "mul", "abs", "div", "neg", "mean", "sum", "add", "sqrt", "huber", "sub"}
)
"""Ops, number by number, that make a loss of differences, by the beginning of their names."""
_MOST = 40
"""Nodes that are looked at."""


def node_of(x: Any) -> Any:
    """The node that made a tensor, PyTorch's or chainrule's; None for a leaf."""
    node = getattr(x, "grad_fn", None)
    own = getattr(x, "node", None)
    return own if node is None and getattr(own, "op", None) is not None else node


def is_view(x: Any) -> bool:
    """Whether a tensor is another one with other axes, which somebody gave it."""
    name = _name(node_of(x))
    return name.startswith(("unsqueeze", "view", "reshape", "index", "expand", "slice", "getitem"))


def adds_up(root: Any, key: int, of: int) -> bool:
    """Whether a loss is made of a difference so that all its numbers are added: that of a node's
    key, or, where results get their nodes later, one that is taken of the node of another key."""
    stack, seen = [node_of(root)], set[int]()
    while stack and len(seen) < _MOST:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        taken = key < 0 and _name(node) == "sub" and of in map(key_of, _below(node))
        if key_of(node) == key or taken:
            return True
        if _name(node).startswith(tuple(_NUMBERS)):
            stack += _below(node)
    return False


def key_of(node: Any) -> int:
    """What tells a node from all others."""
    serial = getattr(node, "_sequence_nr", None)
    return int(serial() if serial is not None else getattr(node, "serial", -1))


def _name(node: Any) -> str:
    """The op's name, in small letters."""
    name: Any = getattr(node, "name", "")
    return str(name() if callable(name) else name).lower()


def _below(node: Any) -> list[Any]:
    pairs: Any = getattr(node, "next_functions", None)
    return [n for n, _ in pairs] if pairs is not None else list(node.inputs)
