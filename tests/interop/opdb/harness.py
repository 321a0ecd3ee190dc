"""Rows of the table, samples of PyTorch's, and when two answers are the same."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

import chainrule as cr
from tests.interop.opdb.translate import Function, array, leaves, to_ours
from tests.ops.sample import Array

EXACT = 1e-9
"""How far answers may differ, relative to the largest element of the answer."""
ROUNDING = 1e-12
"""And relative to an answer's natural size, |g| |y| / |x|: what rounding leaves of a 0."""
FULL = os.environ.get("OPDB") == "full"
"""All samples of every entry instead of a selection: OPDB=full."""


@dataclass(frozen=True)
class Row:
    """An entry of PyTorch's table and our function of PyTorch's arguments.

    `theirs` stands in place of the entry's op where that leaves a choice open (signs of
    eigenvectors, say): the same function of arguments, with a result that is determined.
    """

    entry: str
    ours: Function
    theirs: Function | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """A sample: the leaves of (input, args, kwargs), and which of them are differentiated."""

    row: Row
    op: Any
    number: int
    flat: list[Any]
    structure: Any
    places: list[int] = field(init=False)

    def __post_init__(self) -> None:
        wanted = [isinstance(x, torch.Tensor) and x.requires_grad for x in self.flat]
        object.__setattr__(self, "places", [i for i, w in enumerate(wanted) if w])

    def __str__(self) -> str:
        shapes = [
            str(tuple(x.shape)) if isinstance(x, torch.Tensor) else repr(x) for x in self.flat
        ]
        return f"{self.row.entry} sample {self.number}: {' '.join(shapes)}"

    @cached_property
    def xs(self) -> list[Array]:
        """The differentiable arguments, all in double precision."""
        full = [array(self.flat[i]) for i in self.places]
        return [x.astype(np.float64 if x.dtype == np.float32 else x.dtype) for x in full]

    @cached_property
    def plain(self) -> list[Any]:
        """All leaves in our types."""
        return [to_ours(x) for x in self.flat]

    def random(self, like: Any, salt: int) -> Array:
        """Normal random numbers of the shape and kind of `like`, the same in every run."""
        rng = np.random.default_rng([zlib.crc32(self.row.entry.encode()), self.number, salt])
        x = rng.standard_normal(tuple(like.shape))
        if "complex" in str(like.dtype):
            x = x + 1j * rng.standard_normal(tuple(like.shape))
        return np.asarray(x, str(like.dtype).removeprefix("torch."))

    def _call(self, f: Function, flat: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        full = list(flat)
        for i, x in zip(self.places, xs, strict=True):
            full[i] = x
        first, args, kwargs = tree_unflatten(full, self.structure)
        return leaves(f(first, *args, **kwargs))

    def theirs(self, *xs: Any) -> list[Any]:
        """PyTorch's results."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._call(self.row.theirs or self.op.op, self.flat, xs)

    def ours(self, *xs: Any) -> list[Any]:
        """Our results."""
        return [cr.asarray(y) for y in self._call(self.row.ours, self.plain, xs)]


def cases(row: Row, op: Any, most: int = 1500) -> Iterator[Case]:
    """The samples of an entry: the first eight and up to 24 others, or all of them.

    Every fourth comes first: who takes only some of them has some of each kind.
    """
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = op.sample_inputs("cpu", torch.float64, requires_grad=True)
        samples = list(made if FULL else islice(made, most))
    rng = np.random.default_rng(zlib.crc32(row.entry.encode()))
    chosen = {*range(8), *rng.permutation(len(samples))[:24].tolist()}
    numbers = [n for n in range(len(samples)) if FULL or n in chosen]
    for number in [n for first in range(4) for n in numbers[first::4]]:
        s = samples[number]
        flat, structure = tree_flatten((s.input, s.args, s.kwargs))
        yield Case(row, op, number, flat, structure)


# --- Comparing -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Two answers that are not the same: which question, how far, the answers."""

    question: str
    distance: float
    got: Any
    want: Any
    case: Case

    def __str__(self) -> str:
        return f"{self.case}\n  {self.question}: off by {self.distance:.3g}, {self.got} {self.want}"


def size(x: Any) -> float:
    """The largest finite magnitude in `x`, 1 if there is none."""
    x = np.abs(np.asarray(x, dtype=complex))
    x = x[np.isfinite(x)]
    return float(x.max()) if x.size and x.max() > 0 else 1.0


def differ(case: Case, question: str, got: Any, want: Any, natural: float) -> Difference | None:
    """None if the arrays agree: shape, places of infinity and NaN, and every other element."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return Difference(f"{question} shape", np.inf, got.shape, want.shape, case)
    finite = np.isfinite(want)
    with np.errstate(all="ignore"):
        limit = EXACT * size(want) * bool(np.any(want[finite])) + ROUNDING * natural
        distance = np.abs(np.subtract(got, want, dtype=np.result_type(got, want, float)))
    same = np.where(finite, distance <= limit, _same_special(got, want))
    if same.all():
        return None
    worst = float(np.nan_to_num(np.where(same, 0, distance), nan=np.inf).max())
    return Difference(question, worst / size(want), got, want, case)


def _same_special(got: Array, want: Array) -> Array:
    return (got == want) | (np.isnan(got) & np.isnan(want))
