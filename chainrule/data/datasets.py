"""Datasets, and a loader of their batches that can be stopped and continued anywhere.

The order of an epoch is a permutation drawn from the seed and the epoch's number, so that a loader
is known by three numbers: seed, epoch, position. `state_dict` has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, cast, final, runtime_checkable

import numpy as np

from chainrule.data.worker_processes import Work, in_processes
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError
from chainrule.ops.indexing.selection import take
from chainrule.ops.shapes.joining import stack
from chainrule.tree import flatten


@runtime_checkable
class Dataset(Protocol):
    """Examples by number: anything with `len` and `[i]`, a list too.

    >>> isinstance([1.0, 2.0], cr.data.Dataset)
    True
    """

    def __len__(self) -> int:
        """How many examples there are."""
        ...

    def __getitem__(self, i: int) -> Any:
        """Example i: an array, a number, or a tuple, list or dict of these."""
        ...


@final
class TensorDataset:
    """Rows of several arrays: example i is the tuple of their rows i.

    >>> data = cr.data.TensorDataset(cr.ones((5, 2)), cr.arange(5))
    >>> len(data), data[4]
    (5, (tensor([1., 1.], dtype=float32), tensor(4, dtype=int64)))
    """

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple([asarray(t) for t in tensors])
        sizes = {t.shape[0] if t.ndim else None for t in self.tensors}
        if len(sizes) != 1 or None in sizes:
            shapes = ", ".join([str(t.shape) for t in self.tensors]) or "none"
            raise ConfigError(f"TensorDataset: arrays have one number of rows; shapes are {shapes}")

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def __getitem__(self, i: Any) -> tuple[Tensor, ...]:
        return tuple([t[i] for t in self.tensors])

    def rows(self, indices: Any) -> tuple[Tensor, ...]:
        """Several examples at once, without putting them together one by one."""
        return tuple([take(t, indices, axis=0) for t in self.tensors])


def collate(examples: Sequence[Any]) -> Any:
    """Examples of one structure as one, whose arrays have a new first axis. Texts become a list.

    >>> cr.data.collate([(1.0, 2), (3.0, 4)])[1].tolist()
    [2, 4]
    >>> cr.data.collate([("ab", 0), ("c", 1)])[0]
    ['ab', 'c']
    """
    leaves, structure = flatten(examples[0])
    every = [flatten(e)[0] for e in examples]
    if any(len(e) != len(leaves) for e in every):
        raise ConfigError("collate: examples of a batch have different structures")
    return structure.unflatten([_as_one(column) for column in zip(*every, strict=True)])


def _as_one(leaves: Sequence[Any]) -> Any:
    """What stands at one place of every example of a batch."""
    if all(isinstance(x, str | bytes) for x in leaves):
        return list(leaves)
    column = [asarray(x) for x in leaves]
    if len({x.shape for x in column}) > 1:
        shapes = ", ".join(sorted({str(x.shape) for x in column}))
        raise ConfigError(
            f"collate: examples of a batch have the shapes {shapes}: pad them, or give "
            "DataLoader a collate_fn"
        )
    return stack(column)


@final
class DataLoader:
    """Batches of a dataset, an epoch at a time: `for batch in loader`.

    With `shuffle` each epoch has an order of its own, drawn from `seed` and its number.
    `num_workers` processes, or `workers` threads, make the next batches while one is used: threads
    for examples that are read, processes for those that are computed in Python. In a process,
    random numbers of Python, NumPy and chainrule are seeded by `seed`, the epoch and the batch.
    `state_dict()`, taken between two batches, and `load_state_dict` continue with the very next
    batch, in this process or another. A loop that is left is not continued by the next one, which
    begins a new epoch.

    Processes start as `multiprocessing` does by default: where that is not by a fork, the dataset
    is pickled, and a script keeps its work under `if __name__ == "__main__":`.

    >>> data = cr.data.TensorDataset(cr.ones((5, 2)), cr.arange(5))
    >>> [len(labels) for x, labels in cr.data.DataLoader(data, batch_size=2, shuffle=True)]
    [2, 2, 1]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        seed: int = 0,
        workers: int = 0,
        num_workers: int = 0,
        collate_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise ConfigError(
                f"DataLoader: {type(dataset).__name__} is no dataset: it has no length, or no "
                "examples by number"
            )
        for name, value, least in (
            ("batch_size", batch_size, 1), ("seed", seed, 0), ("workers", workers, 0),
            ("num_workers", num_workers, 0),
        ):  # fmt: skip
            if type(value) is not int or value < least:
                raise ConfigError(f"DataLoader: {name} is an integer >= {least}, not {value!r}")
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, shuffle
        if workers and num_workers:
            raise ConfigError(
                f"DataLoader: either {workers} threads (workers) or {num_workers} processes "
                "(num_workers) make the batches, not both"
            )
        self.drop_last, self.seed, self.workers = drop_last, seed, workers
        self.num_workers = num_workers
        self._collate = collate_fn
        self.epoch = self.position = 0
        self._is_entered = False
        if not len(self):
            raise ConfigError(
                f"DataLoader: {len(dataset)} examples make no batch of {batch_size}"
                f"{' with drop_last' if drop_last else ''}"
            )

    def __len__(self) -> int:
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        """The batches of an epoch: of the next one, if the last loop was left before its end.

        Only the first loop after `load_state_dict` begins at a position. Loops may be nested.
        """
        if self._is_entered:
            self.epoch, self.position, self._is_entered = self.epoch + 1, 0, False
        epoch, start = self.epoch, self.position
        for k, batch in enumerate(self._made(start), start):
            self.epoch, self.position, self._is_entered = epoch, k + 1, True
            yield batch
        self.epoch, self.position, self._is_entered = epoch + 1, 0, False

    def _made(self, start: int) -> Iterator[Any]:
        """The batches of this epoch from number `start` on."""
        numbers = self._order()
        if self.num_workers:
            return self._in_processes(numbers, start)
        if self.workers:
            return self._ahead(numbers, start)
        return (self._batch(numbers, k) for k in range(start, len(self)))

    def _ahead(self, numbers: Any, start: int) -> Iterator[Any]:
        """The same, made by threads."""
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                for k in range(start, len(self)):
                    waiting.append(pool.submit(self._batch, numbers, k))
                    if len(waiting) > self.workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _in_processes(self, numbers: Any, start: int) -> Iterator[Any]:
        """The same, made by processes."""
        work = Work(self.dataset, self._collate or collate, self.seed, self.epoch)
        batches = [self._chosen(numbers, k) for k in range(len(self))]
        return in_processes(work, batches, start, min(self.num_workers, len(batches) - start))

    def _order(self) -> Any:
        n = len(self.dataset)
        if not self.shuffle:
            return np.arange(n)
        return np.random.Generator(np.random.PCG64([self.seed, self.epoch])).permutation(n)

    def _chosen(self, numbers: Any, k: int) -> Any:
        return numbers[k * self.batch_size : (k + 1) * self.batch_size]

    def _batch(self, numbers: Any, k: int) -> Any:
        chosen = self._chosen(numbers, k)
        if isinstance(self.dataset, TensorDataset) and self._collate is None:
            return self.dataset.rows(chosen)
        examples = [self.dataset[int(i)] for i in chosen]
        return (self._collate or collate)(examples)

    def state_dict(self) -> dict[str, Any]:
        """Seed, epoch and position, and what they belong to; fit for JSON."""
        return {
            "seed": self.seed, "epoch": self.epoch, "position": self.position,
            "examples": len(self.dataset), "batch_size": self.batch_size, "shuffle": self.shuffle,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict` of a loader of as many examples and as large batches."""
        mine = self.state_dict()
        if set(state) != set(mine):
            raise ConfigError(f"this state has {sorted(state)}; DataLoader needs {sorted(mine)}")
        for name in ("examples", "batch_size", "shuffle"):
            if state[name] != mine[name]:
                raise ConfigError(
                    f"this state is of a loader with {name} {state[name]}, not {mine[name]}"
                )
        values = [state[name] for name in ("seed", "epoch", "position")]
        if any(type(v) is not int or v < 0 for v in values) or values[2] > len(self):
            raise ConfigError(f"seed, epoch and position are integers in their range, not {values}")
        self.seed, self.epoch, self.position = cast("list[int]", values)
        self._is_entered = False
