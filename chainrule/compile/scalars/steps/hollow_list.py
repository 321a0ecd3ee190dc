"""Lists of floats whose numbers lie in an array until somebody looks.

As leaves are (`hollow.py`): the list's class is `HollowList`, of the same layout, and each of its
items is the owner of the array. All that a list can do fills it first, and then is done by a plain
list. What reads its memory past its methods (`list.__getitem__(m, 0)`, `array.fromlist`) finds the
owner, which is no number.

An iterator or a bound method (`m.__getitem__`) reads that memory, too, and a running function may
make one. So a list is only emptied while nothing refers to it but what holds it for long:
other containers, variables of enclosing functions, objects.
"""

# The memory of any list is looked at.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Sequence
from sys import getrefcount
from types import CellType
from typing import Any, Protocol, final

from chainrule.compile.cpu.object_layout import KIND, word
from chainrule.compile.scalars.lock import LOCK


class Owner(Protocol):
    """What has the numbers of a list."""

    def fill_all(self) -> None:
        """Fill this list, and all that was emptied with it."""
        ...


_CONTAINERS = (dict, list, tuple, CellType)
_OF_HEAP = 1 << 9
"""The flag of a class that is no static one: `Py_TPFLAGS_HEAPTYPE`."""
_CALLERS = 2
"""References by `can_be_hollow` itself, and by `getrefcount`."""
_RAW = ("__new__", "__getattribute__", "__len__", "__sizeof__", "__doc__", "__class_getitem__")
"""What a hollow list has as it is."""


def _filled(x: HollowList) -> list[Any]:
    """The same object as a plain list."""
    with LOCK:
        if type(x) is HollowList:
            owner = list.__getitem__(x, 0)
            if type(owner) is float:  # it was interrupted while it was emptied or filled
                mark_full(x)
            else:
                owner.fill_all()
    return x


@final
class HollowList(list[Any]):
    """A list while its numbers are elsewhere: whatever is asked, it is filled first."""

    __slots__ = ()

    # fmt: off
    # ruff: noqa: D102
    def __new__(cls, *args: Any) -> Any: return list(*args)
    @property
    def __class__(self) -> type: return _filled(self).__class__
    @__class__.setter
    def __class__(self, kind: type) -> None: _filled(self).__class__ = kind
    def __radd__(self, other: Any) -> Any: return other + _filled(self)
    def __reduce_ex__(self, protocol: Any) -> Any: return list, (), None, iter(_filled(self))
    # fmt: on


def _method(name: str) -> Callable[..., Any]:
    def method(self: HollowList, *args: Any, **kwargs: Any) -> Any:
        return getattr(_filled(self), name)(*args, **kwargs)

    method.__name__ = name
    return method


def _install() -> None:
    for name, found in vars(list).items():
        if name not in _RAW and callable(found):
            setattr(HollowList, name, _method(name))
    HollowList.__name__ = HollowList.__qualname__ = list.__name__
    HollowList.__module__ = list.__module__


_install()


def holders_of(lists: Sequence[list[Any]]) -> list[Any]:
    """What refers to lists and asks them for items by their methods. To find it takes tens of
    milliseconds: all objects there are have to be asked to which others they refer."""
    found = gc.get_referrers(*lists)
    return [x for x in found if type(x) in _CONTAINERS or type(x).__flags__ & _OF_HEAP]


def can_be_hollow(x: list[Any], holders: Sequence[Any]) -> bool:
    """Whether a list may be emptied: it has floats only, and only these holders refer to it, beside
    who calls."""
    if HollowList.__basicsize__ != list.__basicsize__ or word(id(x) + KIND) != id(list):
        return False
    known = sum(y is x for y in gc.get_referents(*holders))
    return getrefcount(x) == known + _CALLERS and set(map(type, x)) == {float}


def empty(x: list[Any], owner: Owner) -> None:
    """Make a list hollow."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(HollowList))  # as an instance of it does
    ctypes.c_int64.from_address(id(x) + KIND).value = id(HollowList)
    list.__setitem__(x, slice(None), [owner] * len(x))


def fill(x: list[Any], numbers: list[float]) -> None:
    """Make a hollow list a plain one, of these numbers."""
    list.__setitem__(x, slice(None), numbers)
    mark_full(x)


def mark_full(x: list[Any]) -> None:
    """Let a list that has its numbers be a plain one."""
    ctypes.c_int64.from_address(id(x) + KIND).value = id(list)
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(HollowList))
