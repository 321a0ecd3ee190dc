"""What a graph keeps for its backward pass: bytes by user line and by op.

An array that several nodes keep counts once, for the oldest; a view counts as the array whose
memory it keeps alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chainrule.errors import GradientError
from chainrule.explain.words import is_array, parts_of, plural, quote
from chainrule.graph import order
from chainrule.node import Freed, Node, Variable


@dataclass(frozen=True)
class SavedRow:
    """What the nodes of one op on one line keep."""

    where: str
    op: str
    bytes: int
    arrays: int


@dataclass(frozen=True)
class Saved:
    """Bytes that a graph keeps for its backward pass; `str()` is a table, largest first."""

    rows: tuple[SavedRow, ...]
    """By line and op, largest first."""
    leaves: int
    """Bytes of parameters that rules read too: they are there anyway."""

    @property
    def total(self) -> int:
        """Bytes kept besides the leaves' own."""
        return sum([row.bytes for row in self.rows])

    def by_line(self) -> dict[str, int]:
        """Bytes by `file:line`, largest first."""
        return _summed([(row.where, row.bytes) for row in self.rows])

    def by_op(self) -> dict[str, int]:
        """Bytes by the op's name, largest first."""
        return _summed([(row.op, row.bytes) for row in self.rows])

    def __str__(self) -> str:
        head = f"{size(self.total)} kept for the backward pass"
        own = f", besides {size(self.leaves)} of the parameters themselves" if self.leaves else ""
        lines = [
            f"{size(row.bytes):>10}  {row.op:<14} {plural(row.arrays, 'array'):<11} "
            f"{quote(row.where)}"
            for row in self.rows
        ]
        return "\n".join([head + own, *lines])


def _summed(pairs: list[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for key, count in pairs:
        total[key] += count
    return dict(total.most_common())


def size(count: int) -> str:
    """Bytes in their natural unit.

    >>> size(2048)
    '2.0 KiB'
    """
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def owner(array: Any) -> Any:
    """The object whose memory an array shows: itself, or the last of its bases."""
    while is_array(array) and array.base is not None:
        array = array.base
    return array


def kept(node: Node) -> Iterator[tuple[Any, bool]]:
    """The arrays that a node keeps, each with whether it is the value of a leaf."""
    xs = () if node.xs.__class__ is Freed else node.xs
    pairs: list[tuple[Any, bool]] = [(y, node.op is None) for y in parts_of(node.y)]
    pairs += [(x, n is not None and n.op is None) for n, x in zip(node.inputs, xs, strict=False)]
    for x, of_leaf in pairs:
        if is_array(x):
            yield x, of_leaf


def saved_bytes(loss: Variable) -> Saved:
    """What the graph of `loss` keeps for its backward pass, by line and op, largest first.

    Call it before `backward`, which frees what it used: afterwards nothing is kept. Python numbers
    and the nodes themselves are not counted. Raises `GradientError` if `loss` has no graph.

    >>> import chainrule as cr
    >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> saved_bytes((x.exp() + x).sum()).by_op()
    {'exp': 8}
    """
    if loss.node is None or not loss.node.needs:
        raise GradientError("saved_bytes: this tensor has no graph: it requires no gradient")
    return of_nodes(order([loss.node]))


def of_nodes(walk: list[Node]) -> Saved:
    """What the nodes of `walk`, newest first, keep together."""
    leaves: dict[int, int] = {}
    mine: dict[int, int] = {}
    held: Counter[tuple[str, str]] = Counter()
    arrays: Counter[tuple[str, str]] = Counter()
    pairs = [(n, x, of_leaf) for n in reversed(walk) for x, of_leaf in kept(n)]
    for _, x, of_leaf in pairs:
        if of_leaf:
            leaves[id(owner(x))] = owner_bytes(x)
    for node, x, _ in pairs:
        key = id(owner(x))
        if key not in leaves and key not in mine:
            mine[key] = owner_bytes(x)
            held[node.where, node.name] += mine[key]
            arrays[node.where, node.name] += 1
    rows = [SavedRow(w, op, count, arrays[w, op]) for (w, op), count in held.most_common()]
    return Saved(tuple(rows), sum(leaves.values()))


def owner_bytes(x: Any) -> int:
    """Bytes of the memory that `x` keeps alive."""
    base = owner(x)
    return int(getattr(base, "nbytes", x.nbytes))
