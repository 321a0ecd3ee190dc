"""The group: this worker among those that train together, and what they do together.

Every worker runs the same program and calls the same methods in the same order. A group of one
worker needs no PyTorch; with one micro-batch nothing at all happens in it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import numpy as np

from chainrule.engine.graph import tracer, variable
from chainrule.engine.op import Array
from chainrule.engine.provenance import location, user_line
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, ParallelError, TraceError
from chainrule.nn.base.module import Module
from chainrule.parallel import checkpoint, faults, shards, tree
from chainrule.parallel.calls import Call, Part, describe_arrays
from chainrule.parallel.gradients import Layout, Subtree, all_of, finite_weight
from chainrule.parallel.membership import Membership
from chainrule.parallel.wire import LostError, Wire
from chainrule.tree import flatten

_COMBINE: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@final
class Group:
    """Worker `rank` of `size`, each with its part of `micro_batches`; made by `group()`.

    >>> with cr.parallel.group() as workers:
    ...     print(workers.rank, workers.size)
    0 1
    """

    def __init__(
        self,
        place: Membership,
        micro_batches: int,
        wire: Wire | None = None,
        board: faults.Board | None = None,
    ) -> None:
        self.rank, self.size, self.micro_batches = place.rank, place.size, micro_batches
        mine = shards.cut(micro_batches, place.size, place.rank)
        self.numbers = range(mine.start, mine.stop)
        """Which of a step's micro-batches are this worker's."""
        self._wire, self._board = wire, board
        self._calls = 0
        self._layout: Layout | None = None
        self._subtree = Subtree()

    # --- who and what

    def is_first(self) -> bool:
        """Whether this is worker 0, the one that prints and writes."""
        return self.rank == 0

    @property
    def same_bits(self) -> bool:
        """Whether sums have the bits that a group of one with as many micro-batches gives."""
        each = self.micro_batches // self.size
        even = self.micro_batches % self.size == 0 and each & (each - 1) == 0
        return self.size == 1 or even

    def __repr__(self) -> str:
        s = "" if self.micro_batches == 1 else "es"
        bits = "" if self.same_bits else ", bits differ from those of other numbers of workers"
        count = f"{self.micro_batches} micro-batch{s} a step"
        return f"Group(worker {self.rank} of {self.size}, {count}{bits})"

    # --- data

    def shard(self, batch: Any) -> Any:
        """This worker's rows of a batch that all workers have: a tree of arrays, cut by rows.

        Sizes need not be even; a worker may have no rows.
        """
        if self.size == 1:
            return batch
        size = shards.rows(batch)
        first = shards.cut(size, self.micro_batches, self.numbers[0]).start
        last = shards.cut(size, self.micro_batches, self.numbers[-1]).stop
        return shards.pick(batch, slice(first, last))

    def split(self, batch: Any) -> list[Any]:
        """This worker's micro-batches of a batch that all workers have: each a tree of its rows."""
        if self.micro_batches == 1:
            return [batch]
        size = shards.rows(batch)
        return [shards.pick(batch, shards.cut(size, self.micro_batches, i)) for i in self.numbers]

    # --- gradients

    def add_gradients(self, of: Any, weight: Any = 1.0, loss: Any = 0.0) -> None:
        """Take the gradients of one micro-batch away from the parameters, into the sum of a step.

        `of` is a module, or parameters in a list or a dict. The gradients, and `loss`, are those of
        a mean over `weight` things: rows, or tokens that count. What weighs 0 adds nothing.
        """
        if tracer() is not None:
            raise TraceError(
                "add_gradients: workers exchange gradients outside of what is compiled: compile "
                "the loss and its backward, and the optimizer's step, as two functions"
            )
        each = len(self.numbers)
        if self._subtree.count == each:
            raise ConfigError(
                f"add_gradients: this step has its {each} micro-batches: call average_gradients"
            )
        value = float(loss.item() if isinstance(loss, Tensor) else loss)
        layout, first = self._place_of(of), self._subtree.count == 0
        self._subtree.add(layout.take(finite_weight(weight), value, first=first, alone=each == 1))

    def average_gradients(self, of: Any, weight: Any = 1.0, loss: Any = 0.0) -> float:
        """Give the parameters the average of all workers' gradients; the average of the losses.

        The average is the sum of weight * gradient over the sum of weights, of all micro-batches of
        all workers. The gradients that the parameters have, of `weight`, are the last ones of the
        step, unless `add_gradients` has taken those of every micro-batch.
        """
        if self.micro_batches == 1:
            return float(loss.item()) if isinstance(loss, Tensor) else float(loss)
        each, layout = len(self.numbers), self._place_of(of)
        if self._subtree.count < each:
            self.add_gradients(of, weight, loss)
        if self._subtree.count != each:
            raise ConfigError(
                f"average_gradients: {self._subtree.count} of this worker's {each} micro-batches "
                "were added: call add_gradients after the backward pass of each"
            )
        sums = self._subtree.total()
        call = self._call("average_gradients", describe_arrays([*layout.named.items()]))
        self._reduce(call, sums.arrays, scale=sums.scale)
        weight, loss = sums.facts[:2]
        if not weight:
            raise ConfigError("average_gradients: all weights are 0: there is no average")
        layout.put(sums)
        return float(loss / weight)

    def _place_of(self, of: Any) -> Layout:
        named = all_of(of)
        ids = tuple([id(p) for _, p in named])
        if self._layout is None or self._layout.ids != ids:
            if self._subtree.count:
                raise ConfigError("add_gradients: a step's micro-batches have the same parameters")
            shared = self._wire and self._wire.shared
            self._layout = Layout(dict(named), shared.allocate if shared else None)
        return self._layout

    # --- everything else

    def all_reduce(self, x: Any, op: str = "sum") -> Any:
        """The sum ("max", "min") of all workers' numbers, arrays and tensors, in a tree as given.

        It is added in the tree of workers, so all have the same bits. Shapes are the same on all.
        """
        if op not in _COMBINE:
            raise ConfigError(f"all_reduce: op is one of {', '.join(_COMBINE)}, not {op!r}")
        leaves, structure = flatten(x)
        arrays = [np.array(x.detach().numpy() if isinstance(x, Tensor) else x) for x in leaves]
        odd = [leaf for leaf, a in zip(leaves, arrays, strict=True) if a.dtype.kind not in "fiuc"]
        if odd:
            raise ConfigError(f"all_reduce: numbers and arrays of them are reduced, not {odd[0]!r}")
        if self.size == 1:
            return x
        parts = describe_arrays([(f"value {i}", a) for i, a in enumerate(arrays)])
        flat = [a.reshape(-1) for a in arrays]
        self._reduce(self._call(f"all_reduce {op}", parts), flat, _COMBINE[op])
        return structure.unflatten([_as(a, leaf) for a, leaf in zip(arrays, leaves, strict=True)])

    def barrier(self) -> None:
        """Wait until every worker has come here."""
        if self.size > 1:
            self._reduce(self._call("barrier", anywhere=True), [])

    def broadcast(self, *things: Any) -> None:
        """Give every worker worker 0's state of modules, optimizers, schedulers and scalers."""
        if self.size == 1:
            return
        modules = [x.state_dict() for x in things if isinstance(x, Module)]
        parts = describe_arrays([item for state in modules for item in state.items()])
        call = self._call("broadcast", parts)
        self._reduce(call, [])
        named = {str(i): x for i, x in enumerate(things)}
        saved = self._spread(call, checkpoint.plain(named) if self.is_first() else ({}, {}))
        if not self.is_first():
            checkpoint.restore(saved, named)

    def _spread(self, call: Call, saved: checkpoint.Plain) -> checkpoint.Plain:
        """What worker 0 has, on every worker."""
        texts, arrays = saved
        about = [(name, a.shape, a.dtype.name) for name, a in arrays.items()]
        text = np.frombuffer(json.dumps([texts, about]).encode(), np.uint8).copy()
        size = np.array([text.size])
        self._hand_on(call, [size])
        text = text if self.is_first() else np.empty(int(size[0]), np.uint8)
        self._hand_on(call, [text])
        texts, about = json.loads(text.tobytes().decode())
        if not self.is_first():
            arrays = {name: np.empty(shape, np.dtype(dtype)) for name, shape, dtype in about}
        self._hand_on(call, list(arrays.values()))
        return texts, arrays

    # --- checkpoints

    def save(self, folder: Path | str, step: int, **things: Any) -> None:
        """Worker 0 writes a checkpoint of modules, optimizers and plain values into a folder.

        See `parallel.save`; the newest two are there afterwards, and each appears whole.
        """
        if not self.is_first():
            return
        try:
            checkpoint.save_step(Path(folder), step, things)
        except OSError as cause:
            raise ParallelError(
                f"step {step} could not be saved in {folder} ({cause.strerror or cause}); what was "
                "saved before is whole: make room, and start again"
            ) from cause

    def resume(self, folder: Path | str, **things: Any) -> dict[str, Any]:
        """Load the newest checkpoint of a folder on every worker; what else was saved, and "step".

        Worker 0 reads it and sends it to the others. The step is 0 if there is none; then every
        worker has worker 0's states.
        """
        found = checkpoint.steps(Path(folder))
        newest = found[-1][0] if found else 0
        if self.all_reduce(newest, "max") != newest and self.is_first():
            raise ParallelError(
                f"worker 0 finds step {newest} in {folder}, another worker a later one: their "
                "machines do not share the folder; give one that all see"
            )
        saved = checkpoint.plain(things)
        if self.is_first() and found:
            saved = checkpoint.read(found[-1][1])
        if self.size > 1:
            call = self._call("resume")
            self._reduce(call, [])
            saved = self._spread(call, saved if self.is_first() else ({}, {}))
        return {"step": 0, **checkpoint.restore(saved, things)}

    # --- the exchange itself

    def _call(self, name: str, parts: tuple[Part, ...] = (), *, anywhere: bool = False) -> Call:
        self._calls += 1
        return Call(self._calls, name, location(*user_line()), parts, anywhere)

    def _reduce(
        self,
        call: Call,
        arrays: Sequence[Array],
        combine: Any = np.add,
        *,
        scale: float | None = None,
    ) -> None:
        """`tree.reduce`, with the errors of this group."""
        with np.errstate(all="ignore"):
            if self._wire is None or self._board is None:
                tree.finish(arrays, scale)
                return
            differ = partial(self._board.diverged, call)
            try:
                tree.reduce(self._wire, arrays, combine, call.digest, differ, scale)
            except LostError as error:
                raise self._failure(call, error) from error

    def _hand_on(self, call: Call, arrays: Sequence[Array]) -> None:
        """Give all workers worker 0's arrays."""
        assert self._wire is not None
        try:
            tree.hand_on(self._wire, arrays)
        except LostError as error:
            raise self._failure(call, error) from error

    def _failure(self, call: Call, error: LostError) -> ParallelError:
        assert self._board is not None
        return self._board.lost_worker_error(call, error)

    # --- the end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._wire is None or self._board is None:
            return
        if error is None:
            try:
                # nobody leaves while another still waits for its last numbers
                self._reduce(self._call("the end of the group", anywhere=True), [])
            finally:
                self._wire.close()
            return
        reason = str(error) if isinstance(error, ParallelError) else faults.words(error)
        self._board.write(f"worker {self.rank} of {self.size} stopped: {reason}")
        self._wire.close()


def _as(array: Array, like: Any) -> Any:
    """A result of the kind of what was given."""
    if isinstance(like, Tensor):
        return variable(array)
    return array if isinstance(like, np.ndarray) else array.item()
