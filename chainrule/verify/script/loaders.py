"""Data sets whose samples change where they are read, and samplers that are made for other ones.

What a data set gives for an index is asked for twice, in a copy of the process, with the same
random numbers: if it is not the same and lies in the set's own memory, reading has changed it.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, cast, final

import numpy as np

from chainrule.verify.ledger import Ledger
from chainrule.verify.place import Place
from chainrule.verify.script.sandbox.fork import LostError, can_fork, in_copy
from chainrule.verify.training.record import events
from chainrule.verify.training.record.bus import Bus, Part, on
from chainrule.verify.training.rules.finding import Row
from chainrule.verify.training.text.origins import call_line
from chainrule.verify.trees import function_at, tree_of_file
from chainrule.verify.user_frames import is_library

_MOST = 4
"""Data sets that are read again."""
_PART = 20
"""Of a larger part of a data set than one of so many it may be meant that others are not drawn, if
there are not as many draws as samples."""
_SEED = 5


class _Changed(NamedTuple):
    """A data set that changes what it keeps, and the line that does it."""

    kind: str
    name: str
    place: Place


class _Weights(NamedTuple):
    """A sampler with weights for another number of samples."""

    place: Place | None
    few: int
    size: int


@final
class Loaders(Part):
    """Finds `writes` and `axes_mixed` where data are read."""

    title = "data sets and samplers"
    rows = (
        Row(
            "writes",
            lambda f: f.changed,
            "{kind}.{name} is changed where a sample is read: the same index gives other values "
            "each time, in each epoch others",
            "compute another value: row = row - mean, not row -= mean; or do it once, in __init__",
            subject="{kind}",
        ),
        Row(
            "axes_mixed",
            lambda f: f.weights(),
            "the sampler has {few} weights, the data set {size} samples: only the first {few} "
            "samples are ever drawn",
            "one weight for each sample: weights_of_classes[labels]",
            subject="the sampler",
        ),
    )

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus)
        self._loaders: list[tuple[Any, Place | None]] = []
        self.changed: list[_Changed] = []

    @on(events.LoaderBuilt)
    def _built(self, e: events.LoaderBuilt) -> None:
        self._loaders.append((e.loader, e.place))

    def weights(self) -> Iterator[_Weights]:
        """By loader."""
        for loader, at in self._loaders:
            sampler, size = (
                getattr(loader, "sampler", None),
                _size(getattr(loader, "dataset", None)),
            )
            weights = getattr(sampler, "weights", ())
            drawn = getattr(sampler, "num_samples", 0)
            if 0 < len(weights) < size and (drawn >= size or _PART * len(weights) < size):
                yield _Weights(call_line("WeightedRandomSampler", at) or at, len(weights), size)

    def settle(self, ledger: Ledger) -> None:
        """Read again from each data set of the user's."""
        sets = {id(d): d for loader, _ in self._loaders if (d := _own_set(loader)) is not None}
        kinds: dict[type[Any], Any] = {d.__class__: d for d in sets.values()}
        for kind, data in list(kinds.items())[:_MOST] if can_fork() else ():
            try:
                name = in_copy(lambda d=data: _changed_by_reading(d))
            except LostError:
                continue
            if name:
                self.changed.append(_Changed(kind.__name__, name, _writing_line(kind)))


def _size(data: Any) -> int:
    try:
        return len(data)
    except Exception:  # a stream has none
        return 0


def _own_set(loader: Any) -> Any:
    """The data set of a loader that reads in this process, if its class is the user's; a part of
    one is looked through."""
    data: Any = getattr(loader, "dataset", None)
    while data is not None and data.__class__.__module__.startswith("torch."):
        data = getattr(data, "dataset", None)
    code: Any = getattr(getattr(data.__class__, "__getitem__", None), "__code__", None)
    is_own = code is not None and not is_library(code.co_filename)
    return data if is_own and not getattr(loader, "num_workers", 1) and _size(data) else None


def _array(x: Any) -> Any:
    """The values of a tensor or an array, not copied; None of anything else."""
    if hasattr(x, "detach") and hasattr(x, "numpy"):
        x = x.detach().numpy()
    return x if str(getattr(x, "dtype", "")).startswith(("float", "int", "uint")) else None


def _parts(item: Any) -> list[Any]:
    rows: Any = item.values() if isinstance(item, dict) else item  # pyright: ignore
    several = isinstance(item, dict | list | tuple)
    return [a for x in (rows if several else [item]) if (a := _array(x)) is not None]


def _read(data: Any) -> list[Any]:
    """The first sample, drawn with the same random numbers each time."""
    torch: Any = import_module("torch")
    random.seed(_SEED)
    np.random.seed(_SEED)
    torch.manual_seed(_SEED)
    return _parts(data[0])


def _changed_by_reading(data: Any) -> str:
    """The attribute whose first row each reading changes, and gives."""
    own = cast("dict[str, Any]", data.__dict__)
    kept = {k: a for k, x in own.items() if (a := _array(x)) is not None}
    kept = {k: a for k, a in kept.items() if a.ndim and len(a) == len(data)}
    rows = [{k: a[0].copy() for k, a in kept.items()}]
    given: list[Any] = []
    for _ in range(2):
        given = _read(data)
        rows.append({k: a[0].copy() for k, a in kept.items()})
    for name in kept:
        is_given = any(np.array_equal(x, rows[2][name]) for x in given)
        pairs = [(a[name], b[name]) for a, b in pairwise(rows)]
        if is_given and not any(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
            return name
    return ""


def _writing_line(kind: Any) -> Place:
    """The first line of `__getitem__` that changes something in place, else its first one."""
    code: Any = kind.__getitem__.__code__
    place = Place(code.co_filename, code.co_firstlineno, code.co_qualname)
    function = function_at(tree_of_file(place.file), place.line)
    nodes = list(ast.walk(function)) if function is not None else []
    found = [n.lineno for n in nodes if isinstance(n, ast.stmt | ast.expr) and _writes(n)]
    return Place(place.file, min(found, default=place.line), place.function)


def _writes(n: ast.AST) -> bool:
    match n:
        case ast.AugAssign():
            return True
        case ast.Call(func=ast.Attribute(attr=attr)):
            return attr.endswith("_") and not attr.endswith("__")
        case _:
            return False
