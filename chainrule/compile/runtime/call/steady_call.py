"""The short way of a call that is like the one before.

In a training loop every call finds the same tensors, with the same arrays, as the last one left
them. Only the arguments are new. Then the addresses of all other arrays are known already.
Functions that run in C ask all tensors at once whether the call is like that. If it is not, the
long way of `Variant.call` is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import READY
from chainrule.compile.graph.rules.index_checks import refuse
from chainrule.compile.runtime.call.declared_axes import Axes
from chainrule.compile.runtime.call.gate import Gate, gate, look
from chainrule.compile.runtime.call.settings import Settings
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.runtime.call.state_seen import Seen
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.many_runs import ManyArguments, Moving, Parts
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.runtime.prepared import Entered
from chainrule.compile.runtime.steady_looks import looks
from chainrule.compile.trace.held import HeldGrad
from chainrule.compile.trace.variant import MISFIT, Variant
from chainrule.engine.graph import is_recording
from chainrule.engine.tensors import Tensor

_NO_NAMES: Axes = {}
_LONGEST_PAUSE = 63


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
        self._native: Loaded = (run.run if isinstance(run, Sized) else run).loaded
        # sizes at which the program is known to hold, at others the long way asks
        self._known = run.known if isinstance(run, Sized) else {(): True}
        self._sizes = [(i, a) for _, i, a in run.places] if isinstance(run, Sized) else []
        # of many calls as one, what an eager op raises would come too late
        self.repeats = not (self._native.hosts or self._native.code.undo)
        self.seen = Seen(variant, looks().unchanged)
        self._settings = Settings(variant.numbers)
        self._guards = variant.guards
        self._read = variant.read
        # what machine code cannot see is asked in Python at every call
        self._asked = [p.stays for p in variant.read.asked()]
        fixed = [*self.seen.arrays, *[n.array for n in variant.numbers]]
        self._call = self._native.prepared(len(variant.args), fixed)
        self._finish = variant.finish
        self._axes = axes
        self._gate: Gate | None = None
        self._again: Callable[[Any], int] = _never
        self._arrays = self._arrays_of()
        self._entered: dict[int, Entered] = {}
        # what `again` says, and the sizes that it means, by their number among all that there were
        self._told: dict[int, int] = {}
        self._every: list[tuple[int, ...]] = []

    def watch(self) -> None:
        """Have machine code look at the state and at the arguments, where it can."""
        rows = self.seen.watch()
        if rows is not None:
            before, words = self._read.watch(look)
            args, rows = self.variant.args, [*before, *rows]
            self._gate = gate(self._native.code, self._wanted, self._axes, args, rows, words)
            if self._gate is not None:
                self._again = self._gate.again

    def holds(self) -> bool:
        """Whether the state is as the last call left it, seen by nobody else, and all that the
        function read is as it was."""
        return self.seen.holds() and self._read.stays() and self._settings_hold()

    def _settings_hold(self) -> bool:
        """Whether numbers and guards fit; the numbers are taken over."""
        changed = self._settings.changed(None)
        if changed and not self._settings.take_over(changed):
            return False
        for guard in self._guards:
            if not guard():
                return False
        for stays in self._asked:  # noqa: SIM110 - every call asks
            if not stays():
                return False
        return True

    def call(self, args: tuple[Any, ...]) -> Any:
        """The result, or `MISFIT` if the arguments or the state are not as before."""
        key = self._again(args)
        if (ready := self._entered.get(key)) is not None:
            if is_recording() is self._recording and self._settings_hold():
                return self._finish(ready.run(args))
            return MISFIT
        given = self._matching_arrays(args)
        if given is None or not (self._settings_hold() if key >= 0 else self.holds()):
            return MISFIT
        sizes = tuple([given[i].shape[a] for i, a in self._sizes])
        if sizes not in self._known:
            return MISFIT
        if self._gate is not None and key >= 0:
            self._entered[key] = Entered(self._call, self._gate.way, sizes)
        self.variant.pause = self.variant.paused = 0
        return self._finish(self._call(given, sizes))

    def _matching_arrays(self, args: Sequence[Any]) -> list[Any] | None:
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
            if a.dtype != dtype or a.flags.num & READY != READY:
                return None
            values.append(a)
        for i, a, j, b in self._agree:
            if values[i].shape[a] != values[j].shape[b]:
                return None
        return values if self._all else [values[i] for i in self.variant.args]

    # --- many calls as one

    def loop(self, batches: Iterator[Sequence[Any]]) -> tuple[list[Any] | None, Any]:
        """What calls with `batches` return, up to the first that is not like the one before. The
        results' arrays, stacked (None if there was not one call); and that batch, if there is."""
        gate = None if self._gate is None else self._gate.words
        calls = ManyArguments(len(self.variant.args), self._settings.numbers, gate)
        rest, recording = None, self._recording
        # Each line of this loop is a noticeable part of a small program's time.
        collect, told, asked = calls.collect, self._told, [*self._asked, *self._guards]
        for batch in batches:
            key = collect(batch) if is_recording() is recording else -1
            if key not in told and not self._note(calls, batch, key):
                rest = batch
                break
            for ask in asked:
                if not ask():
                    rest = batch
                    break
            if rest is not None:
                calls.drop()
                break
        if not len(calls):
            return None, rest
        self.variant.pause = self.variant.paused = 0
        return self._run_all(calls), rest

    def _note(self, calls: ManyArguments, batch: Sequence[Any], key: int) -> bool:
        """Note a call, whose `key` is as for `_sizes_of`, if it is like the one before."""
        number = self._sizes_of(batch, key)
        if key >= 0:  # it is noted
            if number is None:
                calls.drop()
            return number is not None
        found = self._settings.read()
        if number is None or any(bool(found[i]) is not truth for i, truth in self._settings.truths):
            return False
        calls.add([*self._arrays(batch)], found, number)
        return True

    def _sizes_of(self, batch: Sequence[Any], key: int) -> int | None:
        """The number of the sizes that a batch's dynamic axes have; None if it is not like the one
        before. `key` is what `again` says of it."""
        given = self._matching_arrays(batch)
        if given is None or not (key >= 0 or self._read.stays()):
            return None
        sizes = tuple([given[i].shape[a] for i, a in self._sizes])
        if sizes not in self._known:
            return None
        if sizes not in self._every:
            self._every.append(sizes)
        number = self._every.index(sizes)
        if key >= 0:
            self._told[key] = number
        return number

    def _arrays_of(self) -> Callable[[Sequence[Any]], Iterable[Any]]:
        """What takes the arrays that the program reads out of a batch."""
        places = self.variant.args
        held = [self._wanted[i][0] is Tensor for i in places]
        if self._all and all(held):
            return partial(map, attrgetter("value"))
        pairs = list(zip(places, held, strict=True))
        return lambda batch: [batch[i].value if h else batch[i] for i, h in pairs]

    def _run_all(self, calls: ManyArguments) -> list[Any]:
        native = self._native
        blocks = [native.block(s) for s in self._every]
        given, found, sizes = calls.columns()
        which = self._numbers_of(sizes)
        shapes = blocks[int(which[0])].shapes
        outs = [np.empty((len(which), *shape), dtype) for shape, dtype in shapes]
        settings = self._settings.columns(found)
        kept = [Parts(x) for x in [*filter(np.ndim, settings), *outs]]
        stay = dict(enumerate(self.seen.arrays, len(given)))
        first = len(given) + len(stay)
        stay |= {i: x for i, x in enumerate(settings, first) if not x.ndim}
        Moving(native, stay)([*given, *[p.addresses for p in kept]], blocks, which)
        if native.checks:
            flags = int(np.bitwise_or.reduce(outs.pop()))
            if flags:
                refuse(flags, native.checks)
        return outs

    def _numbers_of(self, words: Any) -> Any:
        """The number of each call's sizes, of what `ManyArguments` says of them."""
        known = {**self._told, **{~n: n for n in range(len(self._every))}}
        keys = np.array(sorted(known))
        return np.array([known[k] for k in keys.tolist()])[np.searchsorted(keys, words)]


def _never(batch: Any) -> int:
    """What `again` says of arguments that are not as they were."""
    return -1


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a shape is the wanted one; None stands for any size. Short: every call asks."""
    if len(shape) != len(wanted):
        return False
    for n, m in zip(shape, wanted, strict=False):  # noqa: SIM110
        if m is not None and n != m:
            return False
    return True


def steady(variant: Variant, args: Sequence[Any], axes: Sequence[Axes]) -> Steady | None:
    """The short way for further calls like the one that was just made; None if there is none.

    Where the program gets other state at each call (its gradients are averaged between two of them,
    say), no call can go this way. It is prepared ever more seldom then: that takes time, and it
    keeps arrays of the state, which other functions could not write in place.
    """
    if variant.paused:
        variant.paused -= 1
        return None
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
    variant.paused, variant.pause = variant.pause, min(2 * variant.pause + 1, _LONGEST_PAUSE)
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
