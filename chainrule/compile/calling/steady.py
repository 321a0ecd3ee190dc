"""The short way of a call that is like the one before.

In a training loop every call finds the same tensors with the same arrays as the last one left them,
and only the arguments are new. Then the addresses of all other arrays are known already. Whether
the call is like that is asked of all tensors at once, by functions that run in C; if it is not, the
long way of `Variant.call` is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.calling.declared import Axes
from chainrule.compile.calling.joined import Sized
from chainrule.compile.calling.seen import Seen
from chainrule.compile.rewriting.bounds import refuse
from chainrule.compile.running.gate import Gate, gate
from chainrule.compile.running.moving import Moving, Parts
from chainrule.compile.running.prepared import Entered
from chainrule.compile.running.program import Native
from chainrule.compile.tracing.state import MISFIT, HeldGrad, Variant
from chainrule.graph import is_recording
from chainrule.tensor import Tensor

_NO_NAMES: Axes = {}
Turn = tuple[list[Any], tuple[int, ...]]
"""The arrays that one call of many is given, and the sizes that its dynamic axes have."""


@final
class Steady:
    """A variant, and what it saw when it was called last."""

    def __init__(
        self,
        variant: Variant,
        wanted: Sequence[tuple[Any, Any, Any, int | None]],
        axes: Sequence[Axes],
    ) -> None:
        """`wanted` are class, shape and dtype of each argument, in which None is any size; and the
        number of axes where all of them are. `axes` are the names of those sizes."""
        self.variant = variant
        named = [(s, i, a) for i, names in enumerate(axes) for a, s in names.items()]
        first = {s: (i, a) for s, i, a in reversed(named)}
        self._agree = [(*first[s], i, a) for s, i, a in named if (i, a) != first[s]]
        self._wanted = wanted
        self._recording = is_recording()
        self._all = variant.args == list(range(len(wanted)))
        run: Any = variant.run
        self._native: Native = run.run if isinstance(run, Sized) else run
        # sizes at which the program is known to hold, at others the long way asks
        self._known = run.known if isinstance(run, Sized) else {(): True}
        self._sizes = [(i, a) for _, i, a in run.places] if isinstance(run, Sized) else []
        # of many calls as one, what an eager op raises would come too late
        self.repeats = not self._native.hosts
        self.seen = Seen(variant, self._native.unchanged)
        self._reads = [n.read for n in variant.numbers]
        self._numbers, self._guards = variant.numbers, variant.guards
        fixed = [*self.seen.arrays, *[n.array for n in variant.numbers]]
        self._call = self._native.prepared(len(variant.args), fixed)
        self._finish = variant.finish
        self._axes = axes
        self._gate: Gate | None = None
        self._again: Any = None
        self._entered: dict[int, Entered] = {}
        # what `again` says, and the sizes that it means
        self._told: dict[int, tuple[int, ...]] = {}

    def watch(self) -> None:
        """Have machine code look at the state and at the arguments, where it can."""
        rows = self.seen.watch()
        if rows is not None:
            args = self.variant.args
            self._gate = gate(self._native.code, self._wanted, self._axes, args, rows)
            self._again = self._gate and self._gate.again

    def holds(self) -> bool:
        """Whether the state is as the last call left it, and seen by nobody else."""
        return self.seen.holds() and self._settings_hold()

    def _settings_hold(self) -> bool:
        """Whether numbers and guards fit; the numbers are taken over."""
        for n in self._numbers:
            value = n.read()
            if value is not n.last and not n.fits(value):
                return False
        for guard in self._guards:  # noqa: SIM110 - every call asks
            if not guard():
                return False
        return True

    def call(self, args: tuple[Any, ...]) -> Any:
        """The result, or `MISFIT` if the arguments or the state are not as before."""
        entered = self._entered
        if entered and (ready := entered.get(self._again(args))) is not None:
            if is_recording() is self._recording and self._settings_hold():
                return self._finish(ready.run(args))
            return MISFIT
        given = self._given(args)
        if given is None or not self.holds():
            return MISFIT
        sizes = tuple([given[i].shape[a] for i, a in self._sizes])
        if sizes not in self._known:
            return MISFIT
        if self._gate is not None and (key := self._again(args)) >= 0:
            entered[key] = Entered(self._call, self._gate, sizes)
        return self._finish(self._call(given, sizes))

    def _given(self, args: Sequence[Any]) -> list[Any] | None:
        """The arrays of arguments that are like those before; None if they are not."""
        if len(args) != len(self._wanted) or is_recording() is not self._recording:
            return None
        values: list[Any] = []
        for x, (kind, shape, dtype, loose) in zip(args, self._wanted, strict=False):
            if x.__class__ is not kind:
                return None
            a = x
            if kind is Tensor:
                a = x.value
                n = x.node
                if (n is not None and n.needs) or a.__class__ is not np.ndarray:
                    return None
            if a.shape != shape and not (
                len(a.shape) == loose if loose is not None else _fits(a.shape, shape)
            ):
                return None
            if a.dtype != dtype or not a.flags.c_contiguous:
                return None
            values.append(a)
        for i, a, j, b in self._agree:
            if values[i].shape[a] != values[j].shape[b]:
                return None
        return values if self._all else [values[i] for i in self.variant.args]

    # --- many calls as one

    def loop(self, batches: Iterator[Sequence[Any]]) -> tuple[list[Any] | None, Any]:
        """What calls with `batches` return, up to the first that is not like the one before: the
        results' arrays, stacked (None if there was not one call), and that batch, if there is."""
        rows: list[list[Any]] = []
        shapes: list[tuple[int, ...]] = []
        numbers: list[list[float]] = []
        rest, reads, quickly = None, self._reads, self._quickly()
        for batch in batches:
            found = quickly(batch) or self._turn(batch)
            if found is None:
                rest = batch
                break
            rows.append(found[0])
            shapes.append(found[1])
            numbers.append([read() for read in reads])
        if not rows:
            return None, rest
        return self._turns(rows, shapes, numbers), rest

    def _turn(self, batch: Sequence[Any]) -> Turn | None:
        """The arrays of a batch, and their sizes; None if it is not like the one before."""
        given = self._given(batch)
        if given is None:
            return None
        sizes = tuple([given[i].shape[a] for i, a in self._sizes])
        if sizes not in self._known:
            return None
        if self._again is not None and (key := self._again(tuple(batch))) >= 0:
            self._told[key] = sizes
        return given, sizes

    def _quickly(self) -> Callable[[Sequence[Any]], Turn | None]:
        """The same for batches whose sizes came before, by machine code."""
        again, told, recording = self._again, self._told, self._recording
        places = self.variant.args
        held = [self._wanted[i][0] is Tensor for i in places]
        if again is None or not all(held):
            return lambda batch: None

        def turn(batch: Sequence[Any]) -> Turn | None:
            sizes = told.get(again(batch)) if batch.__class__ is tuple else None
            if sizes is None or is_recording() is not recording:
                return None
            return [batch[i].value for i in places], sizes

        return turn

    def _turns(
        self, rows: list[list[Any]], shapes: list[tuple[int, ...]], numbers: list[list[float]]
    ) -> list[Any]:
        native, count = self._native, len(rows[0])
        given = list(zip(*rows, strict=True))
        blocks = {s: native.block(s) for s in set(shapes)}
        every = [blocks[s] for s in shapes]
        outs = [np.empty((len(rows), *shape), dtype) for shape, dtype in every[0].shapes]
        settings = [np.array(column, np.float64) for column in zip(*numbers, strict=True)]
        kept = [Parts(x) for x in [*settings, *outs]]
        stay = self.seen.arrays
        columns = [*[list(map(id, xs)) for xs in given], *[p.addresses for p in kept]]
        Moving(native, dict(enumerate(stay, count)))(columns, every)
        if native.checks:
            flags = int(np.bitwise_or.reduce(outs.pop()))
            if flags:
                refuse(flags, native.checks)
        return outs


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a shape is the wanted one; None stands for any size. Short: every call asks."""
    if len(shape) != len(wanted):
        return False
    for n, m in zip(shape, wanted, strict=False):  # noqa: SIM110
        if m is not None and n != m:
            return False
    return True


def steady(variant: Variant, args: Sequence[Any], axes: Sequence[Axes]) -> Steady | None:
    """The short way for further calls like the one that was just made; None if there is none."""
    if variant.draws or variant.changed or variant.op is not None or variant.truths:
        return None
    if not all(x.__class__ in (Tensor, np.ndarray) for x in args):
        return None
    run = variant.run
    if not isinstance(run, Native | Sized) or not all(h.plain for h in variant.held):
        return None
    if isinstance(run, Sized) and any(i >= len(variant.args) for _, i, _ in run.places):
        return None
    if not all(map(_stays, variant.grads)):
        return None
    if not isinstance(run, Sized):
        axes = [_NO_NAMES] * len(args)  # a program for these sizes alone: they must come again
    wanted: list[tuple[Any, Any, Any, int | None]] = [
        (
            type(x),
            tuple([None if a in named else n for a, n in enumerate(x.shape)]),
            x.dtype,
            x.ndim if len(named) == x.ndim else None,
        )
        for x, named in zip(args, axes, strict=True)
    ]
    found = Steady(variant, wanted, axes)
    if not found.seen.is_alone():
        return None
    found.watch()
    return found if found.holds() else None


def _stays(h: HeldGrad) -> bool:
    """Whether there is a gradient after a call just if there must be one before it."""
    t = h.tensor()
    if t is None or t.node is None or t.node.extra is None:
        return False
    there = t.node.extra.grad is not None
    if (h.read or h.written) and not there:
        return False
    return (h.first is None or h.first is there) and (h.last is None or h.last is there)
