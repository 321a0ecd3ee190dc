"""Datasets made of others: some examples of one, or those of several one after the other."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from chainrule.data.datasets import Dataset
from chainrule.errors import ConfigError
from chainrule.random import Generator, default_generator


@final
class Subset:
    """The examples of a dataset that `indices` numbers, in this order.

    >>> part = cr.data.Subset(["a", "b", "c"], [2, 0])
    >>> len(part), part[0]
    (2, 'c')
    """

    def __init__(self, dataset: Dataset, indices: Sequence[int] | Any) -> None:
        self.dataset = dataset
        self.indices = [int(i) for i in indices]
        n = len(dataset)
        wrong = [i for i in self.indices if not -n <= i < n]
        if wrong:
            raise ConfigError(f"Subset: there is no example {wrong[0]} among {n}")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> Any:
        return self.dataset[self.indices[i]]


@final
class ConcatDataset:
    """The examples of several datasets, one dataset after the other.

    >>> both = cr.data.ConcatDataset(["ab", "cde"])
    >>> len(both), both[2], both[-1]
    (5, 'c', 'e')
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ConfigError("ConcatDataset: datasets has no dataset")
        self._ends = list(itertools.accumulate([len(d) for d in self.datasets]))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, i: int) -> Any:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"ConcatDataset: there is no example {i} among {n}")
        i %= n
        k = bisect_right(self._ends, i)
        return self.datasets[k][i - (self._ends[k - 1] if k else 0)]


def random_split(
    dataset: Dataset, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset]:
    """Parts of a dataset without a common example, drawn at random; together they are all of it.

    `lengths` are numbers of examples, or fractions that add up to 1: what is left by rounding down
    goes to the parts in turn, one each. The numbers are drawn from `generator`, else from that of
    `manual_seed`.

    >>> train, test = cr.data.random_split(range(10), [0.8, 0.2], cr.Generator(0))
    >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
    (8, 2, True)
    """
    n = len(dataset)
    counts = _counts(n, lengths)
    order = (generator or default_generator).permutation(n)
    ends = np.cumsum(counts)[:-1]
    return [Subset(dataset, part) for part in np.split(np.asarray(order), ends)]


def _counts(n: int, lengths: Sequence[int | float]) -> list[int]:
    total = sum(lengths)
    if lengths and min(lengths) >= 0:
        if abs(total - 1) < 1e-9 and any(isinstance(k, float) for k in lengths):
            counts = [int(n * k) for k in lengths]
            for i in range(n - sum(counts)):
                counts[i % len(counts)] += 1
            return counts
        if total == n and all(isinstance(k, int) for k in lengths):
            return [int(k) for k in lengths]
    raise ConfigError(
        f"random_split: lengths are counts that add up to the {n} examples, or fractions that add "
        f"up to 1, not {list(lengths)}"
    )
