"""What a graph keeps for its backward pass: bytes by user line, by op and by module.

An array that several nodes keep counts once, for the oldest; a view counts as the array whose
memory it keeps alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from chainrule.engine.graph import order
from chainrule.engine.node import Freed, Node, Variable
from chainrule.errors import GradientError
from chainrule.explain.modules import owners
from chainrule.explain.words import is_array, outputs_of, plural, quote
from chainrule.page.html import table, to_html
from chainrule.page.readable import Tabled

_K = TypeVar("_K")


@dataclass(frozen=True)
class SavedRow:
    """What the nodes of one op on one line keep, of those that one module made."""

    where: str
    op: str
    module: str
    """Name of the innermost module, as in `named_modules`, or its class if it is the outermost; ''
    for what was computed outside of all. A module remembers its latest 16 calls, no others."""
    bytes: int
    arrays: int


@dataclass(frozen=True)
class Saved(Tabled):
    """Bytes that a graph keeps for its backward pass; `str()` is a table by line and op and, where
    modules made it, another by module, each largest first.

    >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> y = cr.exp(x)
    >>> type(cr.saved_bytes(y)).__name__
    'Saved'
    """

    rows: tuple[SavedRow, ...]
    """By line, op and module, largest first."""
    leaves: int
    """Bytes of parameters that rules read too: they are there anyway."""

    @property
    def total(self) -> int:
        """Bytes kept besides the leaves' own."""
        return sum([row.bytes for row in self.rows])

    def by_line(self) -> dict[str, int]:
        """Bytes by `file:line`, largest first."""
        return _totals([(row.where, row.bytes) for row in self.rows])

    def by_op(self) -> dict[str, int]:
        """Bytes by the op's name, largest first."""
        return _totals([(row.op, row.bytes) for row in self.rows])

    def by_module(self) -> dict[str, int]:
        """Bytes by the name of the module that made them, largest first; see `SavedRow.module`."""
        return _totals([(row.module, row.bytes) for row in self.rows])

    def __str__(self) -> str:
        places = self._by_place()
        lines = [f"{kept:>10}  {op:<14} {count:<11} {line}" for kept, op, count, line in places]
        modules = [f"{kept:>10}  {name}" for kept, name in self._by_module()]
        return "\n".join([self._head(), *lines, *(["By module:", *modules] if modules else [])])

    def html_pieces(self) -> list[str]:
        """The sum, the table by line and op, and that by module."""
        places = [("kept", "op", "arrays", "line"), *self._by_place()]
        modules = [("kept", "module"), *self._by_module()]
        return [
            f"<p>{to_html(self._head())}</p>",
            table(places, "bytes by line and op", text=(0, 1, 2, 3)),
            *([table(modules, "bytes by module", text=(0, 1))] if len(modules) > 1 else []),
        ]

    def _head(self) -> str:
        own = f", besides {size(self.leaves)} of the parameters themselves" if self.leaves else ""
        return f"{size(self.total)} kept for the backward pass{own}"

    def _by_place(self) -> list[tuple[str, str, str, str]]:
        """Bytes, op, arrays and line in words."""
        arrays = _totals([((row.op, row.where), row.arrays) for row in self.rows])
        bytes_ = _totals([((row.op, row.where), row.bytes) for row in self.rows])
        return [
            (size(count), op, plural(arrays[op, where], "array"), quote(where))
            for (op, where), count in bytes_.items()
        ]

    def _by_module(self) -> list[tuple[str, str]]:
        """Bytes and module in words; none where no module made anything."""
        if not any(row.module for row in self.rows):
            return []
        return [(size(count), name or "(outside)") for name, count in self.by_module().items()]


def _totals(pairs: list[tuple[_K, int]]) -> dict[_K, int]:
    total: Counter[_K] = Counter()
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
    while True:
        below = array.base if is_array(array) else getattr(array, "obj", None)
        if below is None:
            return array
        array = below  # of an array, or of the read-only buffer that `numpy()` is a view of


def saved_arrays(node: Node) -> Iterator[tuple[Any, bool]]:
    """The arrays that a node keeps, each with whether it is the value of a leaf."""
    xs = () if node.xs.__class__ is Freed else node.xs
    pairs: list[tuple[Any, bool]] = [(y, node.op is None) for y in outputs_of(node.y)]
    pairs += [(x, n is not None and n.op is None) for n, x in zip(node.inputs, xs, strict=False)]
    for x, of_leaf in pairs:
        if is_array(x):
            yield x, of_leaf


def saved_bytes(loss: Variable) -> Saved:
    """What the graph of `loss` keeps for its backward pass, by line, op and module, largest first.

    Call it before `backward`, which frees what it used: afterwards nothing is kept. Python numbers
    and the nodes themselves are not counted. Raises `GradientError` if `loss` has no graph.

    >>> import chainrule as cr
    >>> x = cr.tensor([1.0, 2.0], requires_grad=True)
    >>> cr.saved_bytes((x.exp() + x).sum()).by_op()
    {'exp': 8}
    """
    if loss.node is None or not loss.node.needs:
        raise GradientError("saved_bytes: this tensor has no graph: it requires no gradient")
    walk = order([loss.node])
    return of_nodes(walk, owners(walk))


def of_nodes(walk: list[Node], modules: Mapping[Node, str]) -> Saved:
    """What the nodes of `walk`, newest first, keep together; `modules` made them."""
    leaves: dict[int, int] = {}
    mine: dict[int, int] = {}
    held: Counter[tuple[str, str, str]] = Counter()
    arrays: Counter[tuple[str, str, str]] = Counter()
    pairs = [(n, x, of_leaf) for n in reversed(walk) for x, of_leaf in saved_arrays(n)]
    for _, x, of_leaf in pairs:
        if of_leaf:
            leaves[id(owner(x))] = owner_bytes(x)
    for node, x, _ in pairs:
        key = id(owner(x))
        if key not in leaves and key not in mine:
            mine[key] = owner_bytes(x)
            place = node.where, node.name, modules.get(node, "")
            held[place] += mine[key]
            arrays[place] += 1
    rows = [SavedRow(*place, count, arrays[place]) for place, count in held.most_common()]
    return Saved(tuple(rows), sum(leaves.values()))


def owner_bytes(x: Any) -> int:
    """Bytes of the memory that `x` keeps alive."""
    base = owner(x)
    return int(getattr(base, "nbytes", x.nbytes))
