"""A list whose numbers lie in an array does all that a list does, with its numbers."""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportArgumentType=false

from __future__ import annotations

import array
import copy
import dataclasses
import gc
import json
import math
import operator
import pickle
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.compile.scalars.steps.float_list import FloatList
from chainrule.compile.scalars.steps.hollow import Leaves
from chainrule.compile.scalars.steps.hollow_list import HollowList, holders_of
from chainrule.tree import flatten, tree_map

NUMBERS = [0.5, -1.25, 3.0, 0.5, 1e-3]


class Holder:
    """Holds a list as a program does."""

    def __init__(self) -> None:
        self.items = list(NUMBERS)


@dataclasses.dataclass
class Settings:
    items: list[float]


def hollow() -> tuple[Holder, FloatList]:
    """A holder whose list is hollow, and the owner of its numbers."""
    holder = Holder()
    owner = FloatList(holder.items, Leaves([]))
    owner.load()
    owner.empty(holders_of([holder.items]))
    assert type(holder.items) is HollowList
    return holder, owner


def _each(m: Any) -> Iterator[Any]:
    for x in m:  # noqa: UP028 (a loop of Python's, as a program has it)
        yield x


def _enumerated(m: Any) -> Any:
    return [(i, x) for i, x in enumerate(m)], list(zip(m, m, strict=True))


def _unpacked(m: Any) -> Any:
    a, *rest = m
    return a, rest, (lambda *xs: xs)(*m)


def _matched(m: Any) -> Any:
    match m:
        case [a, b, *_]:
            return a, b
        case _:
            return None


def _set(i: Any, x: Any) -> Callable[[Any], None]:
    return lambda m: operator.setitem(m, i, x)


def _extended(m: Any) -> Any:
    m += [2.0]
    return m


def _repeated(m: Any) -> Any:
    m *= 2
    return m


def _compared(m: Any) -> Any:
    other = [*NUMBERS[:2], 9.0]
    pairs = (m, other), (other, m), (m, NUMBERS), (NUMBERS, m), (m, m)
    signs = operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge
    return [sign(a, b) for a, b in pairs for sign in signs]


USES: dict[str, Callable[[Any], Any]] = {
    "item": lambda m: (m[0], m[-1], m[1:4:2], m[:]),
    "no item": lambda m: m[5],
    "length": len,
    "iteration": lambda m: list(_each(m)),
    "enumeration": _enumerated,
    "unpacking": _unpacked,
    "match": _matched,
    "copies": lambda m: (list(m), [*m], tuple(m), set(m), m.copy(), copy.copy(m), deque(m)),
    "deep copy": copy.deepcopy,
    "type of a copy": lambda m: type(copy.copy(m)) is list and type(m.copy()) is list,
    "text": lambda m: (repr(m), str(m), f"{m}", "%s" % m),  # noqa: UP031
    "sums": lambda m: (sum(m), min(m), max(m), math.fsum(m), math.prod(m), any(m), all(m)),
    "order": lambda m: (sorted(m), list(reversed(m))),
    "search": lambda m: (3.0 in m, m.index(3.0), m.count(0.5), operator.indexOf(m, 3.0)),
    "comparison": _compared,
    "sums of lists": lambda m: (m + [1.0], [1.0] + m, m * 2, 2 * m),  # noqa: RUF005
    "class": lambda m: (m.__class__ is list, isinstance(m, list), isinstance(m, Sequence)),
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "old pickle": lambda m: pickle.loads(pickle.dumps(m, 0)),
    "json": json.dumps,
    "numpy": lambda m: (np.array(m).tolist(), np.add(m, 1).tolist(), np.float64(2) * np.asarray(m)),
    "array": lambda m: array.array("d", m).tolist(),
    "choice": lambda m: random.Random(1).choice(m),
    "tree": lambda m: flatten({"m": m}),
    "mapped tree": lambda m: tree_map(lambda x: 2 * x, [m]),
    "tensor": lambda m: cr.tensor(m).tolist(),
    "dataclass": lambda m: dataclasses.asdict(Settings(m)),
    "hash": hash,
    "set": _set(1, 7.0),
    "set many": _set(slice(1, 3), [1.0, 2.0, 3.0]),
    "assigned to a part": lambda m: operator.setitem([0.0], slice(0, 1), m),
    "delete": lambda m: operator.delitem(m, 2),
    "append": lambda m: m.append(8.0),
    "extend": lambda m: m.extend(m),
    "extend in place": _extended,
    "repeat in place": _repeated,
    "insert": lambda m: m.insert(1, 8.0),
    "pop": lambda m: m.pop(),
    "remove": lambda m: m.remove(3.0),
    "reverse": lambda m: m.reverse(),
    "sort": lambda m: m.sort(key=abs),
    "clear": lambda m: m.clear(),
    "initialization": lambda m: m.__init__([4.0]),
    "no attribute": lambda m: m.nothing,
}


def outcome(use: Callable[[Any], Any], m: Any) -> str:
    try:
        return repr(use(m))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("use", USES)
def test_each_use_of_a_list(use: str) -> None:
    plain, (holder, _) = list(NUMBERS), hollow()
    assert outcome(USES[use], holder.items) == outcome(USES[use], plain)
    assert holder.items == plain
    assert type(holder.items) is list


def test_all_methods_fill() -> None:
    """A method of a later Python's lists is one more."""
    raw = {"__new__", "__getattribute__", "__len__", "__sizeof__", "__doc__", "__class_getitem__"}
    methods = {name for name, x in vars(list).items() if callable(x)} - raw
    assert methods <= vars(HollowList).keys()


def test_what_reads_memory_past_the_methods_finds_no_number() -> None:
    holder, owner = hollow()
    found = list.__getitem__(holder.items, 2)
    assert found is owner
    assert "methods of its list" in repr(found)
    with pytest.raises(TypeError):
        array.array("d").fromlist(holder.items)
    assert holder.items == NUMBERS


@pytest.mark.parametrize(
    "make", [iter, reversed, lambda m: m.__getitem__, lambda m: m.append, lambda m: enumerate(m)]
)
def test_a_list_that_is_being_read_stays_full(make: Callable[[Any], Any]) -> None:
    holder = Holder()
    owner = FloatList(holder.items, Leaves([]))
    holders = holders_of([holder.items])
    for _ in range(5):
        reader = make(holder.items)
        owner.load()
        owner.empty(holders_of([holder.items]))
        assert type(holder.items) is list
        del reader
    owner.empty(holders)
    assert type(holder.items) is HollowList
    repr(holder.items)
    reader = make(holder.items)
    owner.empty(holders)
    assert type(holder.items) is list
    del reader


def test_a_list_in_a_running_function_stays_full() -> None:
    holder = Holder()
    owner, items = FloatList(holder.items, Leaves([])), holder.items
    owner.load()
    owner.empty(holders_of([holder.items]))
    assert type(items) is list


def test_a_list_of_more_than_floats_stays_full() -> None:
    holder = Holder()
    holder.items[2] = 3
    owner = FloatList(holder.items, Leaves([]))
    owner.load()
    owner.empty(holders_of([holder.items]))
    assert type(holder.items[2]) is int


def test_writes_to_a_hollow_list() -> None:
    holder, owner = hollow()
    owner.store(np.array([7.0, 8.0]), np.array([1, 3]))
    assert type(holder.items) is HollowList
    owner.put(5, np.array([2]))
    assert holder.items == [0.5, 7.0, 5, 8.0, 1e-3]
    assert type(holder.items[2]) is int


def test_a_hollow_list_outlives_its_program_and_is_collected() -> None:
    holder, owner = hollow()
    del owner
    gc.collect()
    assert holder.items == NUMBERS
    gc.collect()
    before = sum(type(x) is HollowList for x in gc.get_objects())
    more = [hollow()[0] for _ in range(200)]
    assert sum(type(x) is HollowList for x in gc.get_objects()) == before + 200
    del more
    gc.collect()
    assert sum(type(x) is HollowList for x in gc.get_objects()) == before
