"""Graphs that outlive their step, and who holds them: which variable, list, attribute.

A step leaves nothing behind but the numbers that it is asked to keep. A loss put into a list, say,
keeps its whole graph with it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any, cast

from chainrule.engine import border
from chainrule.engine.graph import leaf, order
from chainrule.engine.node import Node, Variable
from chainrule.explain.kept_memory import of_nodes, size
from chainrule.explain.words import every_node, plural, quote
from chainrule.page.readable import Readable

_DEPTH = 6
"""How many containers inside one another are looked through for a name."""


@dataclass(frozen=True)
class Leak(Readable):
    """A graph that is alive: the tensor at its end, and where that is held.

    >>> kept = []
    >>> found = cr.leaks(lambda: kept.append(cr.tensor(1.0, requires_grad=True) * 2))
    >>> found.graphs[0].op
    'mul'
    """

    op: str
    where: str
    """`file:line` that made it."""
    nodes: int
    bytes: int
    """Kept for a backward pass that may never come."""
    holders: tuple[str, ...]
    """Who holds it, in words."""

    def __str__(self) -> str:
        who = "; ".join(self.holders) or "something that Python's garbage collector does not see"
        return (
            f"the result of '{self.op}' at {quote(self.where)}\n"
            f"    keeps {plural(self.nodes, 'node')} and {size(self.bytes)} alive; held by {who}"
        )


@dataclass(frozen=True)
class Leaks(Readable):
    """Every graph that was found alive, largest first; false if there is none.

    >>> bool(cr.leaks(lambda: cr.tensor(1.0, requires_grad=True) * 2))
    False
    """

    graphs: tuple[Leak, ...]

    def __bool__(self) -> bool:
        return bool(self.graphs)

    def __str__(self) -> str:
        if not self.graphs:
            return "No graph outlived its step."
        count = plural(len(self.graphs), "graph")
        advice = "Keep the number (loss.item()) or the values (x.detach()) in its place."
        return "\n".join([f"{count} alive:", *[str(leak) for leak in self.graphs], advice])


def leaks(step: Callable[[], Any] | None = None, *, steps: int = 3) -> Leaks:
    """The graphs that survive a training step, and who holds them.

    Runs `step()` `steps` times; what an earlier run made and the last one did not replace is a
    leak. Without a step: every graph that is alive now, the one that you are working on included.

    >>> kept = []
    >>> found = cr.leaks(lambda: kept.append(cr.tensor(1.0, requires_grad=True) * 2))
    >>> bool(found)
    True
    """
    if step is None:
        return _alive(0, sys.maxsize)
    start = last = _now()
    for _ in range(steps):
        last = _now()
        step()
    return _alive(start, last)


def _now() -> int:
    """The serial number that separates the nodes there are from those to come."""
    return leaf((), None, needs=False).serial


def _alive(start: int, stop: int) -> Leaks:
    """The graphs whose nodes were made between two serial numbers."""
    gc.collect()
    mine = [n for n in every_node() if n.op is not None and start <= n.serial <= stop]
    used = {n for user in mine for n in user.inputs if n is not None}
    found: list[Leak] = []
    for root in [n for n in mine if n not in used]:
        walk = [n for n in order([root]) if n.op is not None]
        who = tuple(dict.fromkeys(_holders(root)))
        found.append(Leak(root.name, root.where, len(walk), of_nodes(walk, {}).total, who))
    found.sort(key=lambda k: -k.bytes)
    return Leaks(tuple(found))


def _holders(node: Node) -> Iterator[str]:
    """Every place, in words, from which a tensor with this node is held.

    Looked for level by level: the collector's list of who refers to what is long, and one look at
    it tells of all objects of a level.
    """
    level = [_Referrer(x, "") for x in gc.get_referrers(node) if isinstance(x, Variable)]
    seen = {id(held.x) for held in level}
    for _ in range(_DEPTH):
        yield from [name for held in level for name in _locals(held.x, held.path)]
        names, level = _above(level, seen)
        yield from names
    yield from [name for held in level for name in _locals(held.x, held.path)]


def _above(level: list[_Referrer], seen: set[int]) -> tuple[list[str], list[_Referrer]]:
    """The globals that hold objects of a level, and what else holds them and was not `seen`.

    A function of its own: what it notes on its way is gone before the next look.
    """
    objects = [held.x for held in level]
    found = [h for h in gc.get_referrers(*objects) if id(h) not in seen and not _is_ours(h)]
    found = [h for h in found if h is not objects]
    seen |= {id(h) for h in found}
    owners = _owners([h for h in found if isinstance(h, dict)])
    names: list[str] = []
    above: list[_Referrer] = []
    for holder in found:
        module = _module_of(holder)
        for held in level:
            if module is not None:
                names += _globals(holder, held, module)
            else:
                steps = _steps(holder, held.x, owners)
                above += [_Referrer(up, step + held.path) for step, up in steps]
    return names, list({id(held.x): held for held in reversed(above)}.values())


class _Referrer:
    """Something that holds the tensor, and what follows its name there ("[3].loss")."""

    __slots__ = ("path", "x")

    def __init__(self, x: Any, path: str) -> None:
        self.x = x
        self.path = path


def _globals(names: dict[str, Any], held: _Referrer, module: str) -> Iterator[str]:
    for name, value in names.items():
        if value is held.x:
            yield f"the global '{name}{held.path}' of module {module}"


def _owners(dicts: list[dict[Any, Any]]) -> dict[int, Any]:
    """The objects whose attributes stand in some dicts, by the dict's id."""
    wanted = {id(d) for d in dicts}
    holders = [(o, getattr(o, "__dict__", None)) for o in gc.get_referrers(*dicts)]
    return {id(own): o for o, own in holders if id(own) in wanted and type(o) is not FrameType}


def _steps(holder: Any, x: Any, owners: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    """How `x` is reached from its holder ("[3]", ".loss"), and from whom to look on."""
    if isinstance(holder, dict):
        items = cast(dict[Any, Any], holder)
        owner = owners.get(id(items))
        for k, v in items.items():
            if v is x:
                yield (f".{k}", owner) if owner is not None else (f"[{k!r}]", items)
    elif isinstance(holder, list | tuple):
        parts = cast(list[Any], holder)
        closure = isinstance(x, CellType)  # the cells of a function stand in a tuple
        yield from [("" if closure else f"[{i}]", parts) for i, v in enumerate(parts) if v is x]
    elif isinstance(holder, CellType):
        yield from [("", holder)] if holder.cell_contents is x else []
    elif isinstance(holder, FunctionType):
        kept = (holder.__closure__, holder.__defaults__, holder.__kwdefaults__)
        words = (" (closure)", " (default)", " (default)")
        yield from [(word, holder) for word, v in zip(words, kept, strict=True) if v is x]
    elif not isinstance(holder, FrameType | ModuleType | Node):
        inside: dict[str, Any] = getattr(cast(object, holder), "__dict__", {})
        names = [k for k, v in inside.items() if v is x]
        if names or any(o is x for o in gc.get_referents(holder)):
            yield (f".{names[0]}" if names else f" in a {type(holder).__name__}"), holder


def _locals(x: Any, path: str) -> Iterator[str]:
    """The local variables of running functions that are `x`."""
    for top in sys._current_frames().values():  # pyright: ignore[reportPrivateUsage]
        frame: FrameType | None = top
        while frame is not None:
            code = frame.f_code
            home = frame.f_globals.get("__name__")
            if code.co_name != "<module>" and home not in (__name__, border.__name__):
                for name, value in frame.f_locals.items():
                    if value is x:
                        yield f"the local '{name}{path}' of {code.co_qualname}()"
            frame = frame.f_back


def _is_ours(holder: Any) -> bool:
    """Whether a holder is a part of this search itself."""
    if isinstance(holder, FrameType):
        return True
    ours = ("list_iterator", "generator", "dict_itemiterator")
    return isinstance(holder, _Referrer) or type(holder).__name__ in ours


def _module_of(holder: Any) -> str | None:
    """The name of the module whose globals `holder` is."""
    if not isinstance(holder, dict):
        return None
    name = cast(dict[str, Any], holder).get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is holder else None
