"""Settings of optimizers that calls read: all at once, and of many calls as columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, final

import numpy as np

from chainrule.compile.trace.captured import Entry
from chainrule.compile.trace.held import HeldNumber

Read = Callable[[], tuple[Any, ...]]


@final
class Settings:
    """The settings that calls read. `read()` gives those that there are now, as numbers, in the
    order of `numbers`: what one dictionary holds together."""

    def __init__(self, numbers: Sequence[HeldNumber]) -> None:
        groups: dict[tuple[int, str | None], list[HeldNumber]] = {}
        for n in numbers:
            e = n.entry
            groups.setdefault((id(e.holder), None if e.item is None else e.key), []).append(n)
        self.read = _together([_reader([n.entry for n in ns]) for ns in groups.values()])
        self.numbers = list(chain(*groups.values()))
        self._places = [self.numbers.index(n) for n in numbers]
        self._checks = list(dict.fromkeys([n.check for n in numbers]))
        # those that the function asked for their truth, by their place, must have it still
        self.truths = [(i, n.truth) for i, n in enumerate(self.numbers) if n.truth is not None]
        records = [n.words() for n in self.numbers]
        head = len(numbers), int(None in records), id(float)
        self.words = np.array([*head, *chain(*filter(None, records))], np.int64)
        """What machine code reads of them, as `cpu/call_settings.py` says."""

    def take_over(self) -> bool:
        """Whether the numbers fit; those that are others than before are taken over."""
        for n in self.numbers:
            value = n.read()
            if value is not n.last and not n.fits(value):
                return False
        return True

    def columns(self, found: Any) -> list[Any]:
        """For each setting its values, float64, one for each call, or one that is the same in all
        of them; `found` (calls, settings) is what was read. Raises what the optimizer raises for
        settings as they are now."""
        for check in self._checks:
            check()
        return [_column(found[:, i]) for i in self._places]


def _reader(entries: Sequence[Entry]) -> Read:
    """What reads entries of one dictionary, or items of one entry."""
    holder, key = entries[0].holder, entries[0].key
    if entries[0].item is None:
        get = _getter([e.key for e in entries])
        return partial(get, holder)
    items = _getter([e.item for e in entries])
    return lambda: items(holder[key])


def _getter(places: Sequence[Any]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(places) == 1:
        (place,) = places
        return lambda thing: (thing[place],)
    return itemgetter(*places)


def _together(readers: Sequence[Read]) -> Read:
    """What reads all of them; two, as for Adam, without a loop."""
    if not readers:
        return tuple
    if len(readers) == 1:
        return readers[0]
    if len(readers) == 2:
        one, two = readers
        return lambda: one() + two()
    return lambda: tuple(chain(*[read() for read in readers]))


def _column(values: Any) -> Any:
    bits = values.view(np.int64)
    return np.array(values[0]) if (bits == bits[0]).all() else np.array(values)
