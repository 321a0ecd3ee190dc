"""The numbers that a step can change: data and gradients of Values, and the items of lists."""

# What Value keeps to itself is looked at; lists may hold anything.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, ClassVar, cast, final

from chainrule.compile.scalars.ints.symbolic import SymbolicInt
from chainrule.compile.scalars.reroll.containers import PLAIN, entry_of, parts
from chainrule.compile.scalars.steps.counts import Count, can_count
from chainrule.compile.scalars.steps.numbers import TracedNumber
from chainrule.scalar import Value
from chainrule.scalar.walk import APART


@final
class State:
    """The Values without operands and the lists of numbers that `roots` refer to. Lists of nothing
    but ints are apart: they count only if a step puts floats there. So many were `made`: each
    refers to these lists."""

    made: ClassVar[int] = 0

    def __init__(self, roots: Sequence[Any]) -> None:
        State.made += 1
        self.roots = tuple(roots)
        self.values: list[Value] = []
        self.lists: list[list[Any]] = []
        self.ints: list[list[Any]] = []
        self._others: list[tuple[Any, list[tuple[Any, Any]]]] = []
        """Everything else that can be reached, with what it refers to."""
        self.counts: list[Count] = []
        """The ints that a step changes."""
        self.name: Any = None
        """The name of what `changed` found."""
        for x in _reached(roots):
            if isinstance(x, Value):
                if x._made is None and (x._chain is None or x._chain is APART):
                    self.values.append(x)
            elif _is_numbers(x):
                kind = self.lists if float in map(type, x) else self.ints
                kind.append(x)
            else:
                self._others.append((x, list(parts(x))))

    def numbers(self) -> list[Any]:
        """All numbers, as they are now."""
        out: list[Any] = [x for v in self.values for x in (v.data, v._g)]
        out += [c.value for c in self.counts]
        return out + [x for held in self.lists for x in held]

    def saved(self) -> Callable[[], None]:
        """What puts back all numbers as they are now."""
        data = [v.data for v in self.values]
        gradients = [v._g for v in self.values]
        lists = [*self.lists, *self.ints]
        items = [list(x) for x in lists]
        counts = [(c, c.value) for c in self.counts]

        def put_back() -> None:
            for v, x, g in zip(self.values, data, gradients, strict=True):
                v.data, v._g = x, g
            for held, x in zip(lists, items, strict=True):
                held[:] = x
            for holder, before in self._others:
                _restore(holder, before)
            for c, x in counts:
                c.write(x)

        return put_back

    def changed(self) -> str | None:
        """What refers to something else now, and is no part of the state, in words."""
        for holder, before in self._others:
            now = list(parts(holder))
            if len(now) != len(before):
                return f"a {type(holder).__name__} of {len(before)} entries, which has {len(now)}"
            for (name, x), (other, y) in zip(before, now, strict=True):
                if name != other or (x is not y and not self._is_count(holder, name)):
                    self.name = name
                    return f"{name!r}" if isinstance(name, str) else f"a {type(holder).__name__}"
        return None

    def find_counts(self) -> list[Count]:
        """Ints that are other ones now, beside the `counts`."""
        found: list[Count] = []
        for holder, before in self._others:
            now = list(parts(holder)) if can_count(holder) else []
            if len(now) == len(before):
                found += [
                    Count(holder, name)
                    for (name, x), (other, y) in zip(before, now, strict=True)
                    if x is not y and name == other and type(x) is int and _is_int(y)
                    if not self._is_count(holder, name)
                ]
        return found

    def _is_count(self, holder: Any, name: Any) -> bool:
        return any(c.holder is holder and c.name == name for c in self.counts)


def _is_int(x: Any) -> bool:
    return type(x) in (int, SymbolicInt)


def _is_numbers(x: Any) -> bool:
    """Whether it is a list of numbers."""
    if type(x) is not list:
        return False
    kinds = set(map(type, _items(x)))
    return bool(kinds) and kinds <= {float, int}


def _items(x: Any) -> list[Any]:
    return x


def _restore(holder: Any, before: list[tuple[Any, Any]]) -> None:
    """Let it refer to that again."""
    now = list(parts(holder))
    if len(now) == len(before) and all(
        x is y and n == m for (n, x), (m, y) in zip(before, now, strict=True)
    ):
        return
    if isinstance(holder, list):
        _items(holder)[:] = [x for _, x in before]
    elif isinstance(holder, FunctionType):
        cells = dict(zip(holder.__code__.co_freevars, holder.__closure__ or (), strict=True))
        for name, x in before:
            if name in cells:
                cells[name].cell_contents = x
            else:
                names, key = entry_of(holder, name)
                if key in names:
                    names[key] = x
    elif isinstance(holder, set):
        held = cast("set[Any]", holder)
        held.clear()
        held.update([x for _, x in before])
    else:
        names = cast("Any", holder if isinstance(holder, dict) else vars(holder))
        if type(names) is dict:
            entries = cast("dict[Any, Any]", names)
            entries.clear()
            entries.update(before)


def _reached(roots: Sequence[Any]) -> list[Any]:
    """All that these refer to, through containers, objects and functions."""
    queue = list(roots)
    seen = set(map(id, queue))
    for x in queue:
        if isinstance(x, Value):
            continue
        for _, y in parts(x):
            if id(y) not in seen and not isinstance(y, PLAIN) and type(y) is not TracedNumber:
                seen.add(id(y))
                queue.append(y)
    return queue
