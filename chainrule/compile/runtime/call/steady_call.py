"""The short way of a call that is like the one before.

In a training loop every call finds the same tensors, with the same arrays, as the last one left
them. Only the arguments are new. Then the addresses of all other arrays are known already.
Functions that run in C ask all tensors at once whether the call is like that. If it is not, the
long way of `Variant.call` is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.object_layout import READY
from chainrule.compile.runtime.call.declared_axes import Axes
from chainrule.compile.runtime.call.gate import Gate, gate, look
from chainrule.compile.runtime.call.noted_calls import NotedCalls
from chainrule.compile.runtime.call.settings import Settings
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.runtime.call.state_seen import Seen
from chainrule.compile.runtime.call.wanted_arguments import Kind, Wanted, kind_of
from chainrule.compile.runtime.call.whole_call import WholeCall, whole_call
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.native_program import Native
from chainrule.compile.runtime.prepared_calls import Entered
from chainrule.compile.runtime.steady_looks import looks
from chainrule.compile.trace.state_inputs import Held, HeldGrad, is_writable
from chainrule.compile.trace.variant import MISFIT, Variant
from chainrule.engine.graph import is_recording
from chainrule.engine.tensors import Tensor

_NO_NAMES: Axes = {}
_LONGEST_PAUSE = 63


@final
class Steady:
    """A variant, and what it saw when it was called last."""

    def __init__(self, variant: Variant, wanted: Sequence[Kind], axes: Sequence[Axes]) -> None:
        """`wanted` are the arguments' kinds, `axes` the names of sizes that may be any."""
        self.variant = variant
        self._kinds = wanted, axes
        self._wanted = Wanted(wanted, axes, variant.args)
        self._recording = is_recording()
        run: Any = variant.run
        self._native: Loaded = (run.run if isinstance(run, Sized) else run).loaded
        # sizes at which the program is known to hold, at others the long way asks
        self._known = run.known if isinstance(run, Sized) else {(): True}
        self._sizes = [(i, a) for _, i, a in run.places] if isinstance(run, Sized) else []
        self.repeats = False
        """Whether many calls can be one."""
        self.seen = Seen(variant, looks().unchanged)
        self._settings = Settings(variant.numbers)
        self._read = variant.read
        # what machine code cannot see is asked in Python at every call
        self._asked = [p.stays for p in variant.read.asked()]
        self._call = self._native.prepared(len(variant.args), self._fixed())
        self._finish = variant.finish
        self._gate: Gate | None = None
        self._again: Callable[[Any], int] = _never
        self._noted: NotedCalls | None = None
        self._whole: WholeCall | None = None
        self.short: Callable[[Any], Any] | None = None
        """`call` for sizes that came before, in machine code: where that gives `MISFIT`, `call` may
        give a result. None if something is to be asked, or done, in Python before."""

    def _fixed(self) -> list[Any]:
        return [*self.seen.arrays, *[n.array for n in self.variant.numbers]]

    def takes(self, variant: Variant, wanted: Sequence[Kind], axes: Sequence[Axes]) -> bool:
        """Whether this is the short way for such calls, once the state is looked at again."""
        same = variant is self.variant and (wanted, axes) == self._kinds
        return same and is_recording() is self._recording

    def look_again(self) -> bool:
        """Look at the state as it is now: its tensors hold other arrays than before, and all that
        was prepared for calls stays. Whether nobody else sees it."""
        with self._native.lock:  # a run of another thread may still write to the arrays before
            self.seen = Seen(self.variant, looks().unchanged)
            if not self.seen.is_alone():
                return False
            self._call.put_fixed(self._fixed())
            rows = self.seen.rows()
            if rows is not None:
                self.seen.watch(self._watched(rows))
            return True

    def _watched(self, rows: list[int]) -> Any:
        """Where machine code looks at rows of the state."""
        if self._gate is None:
            return np.array(rows, np.int64)
        return self._gate.put_rows(rows)

    def watch(self) -> None:
        """Have machine code look at state, settings and arguments, where it can."""
        rows = self.seen.rows()
        if rows is not None:
            before, words = self._read.watch(look)
            every = [*before, *rows]
            self._gate = gate(self._native.code, self._wanted, every, words, self._settings.words)
            self.seen.watch(self._watched(rows))
            if self._gate is not None:
                self._again = self._gate.again
                # of many calls as one, what an eager op raises would come too late
                late = self._native.hosts or self._native.code.undo
                self.repeats = not late and not self._asked and self._settings.are_seen
                self._whole = whole_call(self._native, self._gate, self._recording, self._finish)
                if self._whole is not None and not self._asked and self._native.pool is None:
                    self.short = self._whole.call

    def holds(self) -> bool:
        """Whether the state is as the last call left it, seen by nobody else, all that the function
        read is as it was, and settings fit, which are taken over."""
        return self.seen.holds() and self._read.stays() and self._settings.take_over()

    def call(self, args: tuple[Any, ...]) -> Any:
        """The result, or `MISFIT` if the arguments or the state are not as before."""
        if not all(stays() for stays in self._asked):
            return MISFIT
        key = self._again(args)
        if key < -1:  # settings that machine code does not judge
            if not self._settings.take_over():
                return MISFIT
            key = -2 - key
        if self._whole is not None and key in self._whole.keys:
            if self._native.pool is not None:
                self._native.pool.run()
            if (result := self._whole.call(args)) is not MISFIT:
                return result
        return self._first(args, key)

    def _first(self, args: tuple[Any, ...], key: int) -> Any:
        """The same for sizes that are new, or where machine code does not look: `key` is -1."""
        given = self._wanted.arrays(args)
        if given is None or is_recording() is not self._recording:
            return MISFIT
        adopted = key < 0 and not self.holds()
        if adopted and not self._adopts_state():
            return MISFIT
        sizes = tuple([given[i].shape[a] for i, a in self._sizes])
        if sizes not in self._known:
            return MISFIT
        if self._gate is not None and self._whole is not None and key >= 0:
            self._whole.add(key, Entered(self._call, self._gate.way, sizes))
        if not adopted:
            self.variant.pause = self.variant.paused = 0
        return self._finish(self._call(given, sizes))

    def _adopts_state(self) -> bool:
        """Whether the tensors of the state hold other arrays than before, loaded into them, say,
        that the program can take as it took those. As often as a new `Steady` may be made."""
        v = self.variant
        if v.paused or not all(map(_fits, v.held)) or not all(map(_is_usable, v.grads)):
            return False
        _lengthen_pause(v)
        return self.look_again() and self.holds()

    def loop(self, batches: Iterator[Sequence[Any]]) -> tuple[list[Any] | None, Any]:
        """What calls with `batches` return, up to the first that is not like the one before. The
        results' arrays, stacked (None if there was not one call); and that batch, if there is."""
        calls, self._noted = self._noted, None  # a batch may be what another loop returns
        if calls is None:
            assert self._gate is not None, "a loop whose calls cannot be noted"
            of = self._native, self._wanted, self._settings, self._gate
            calls = NotedCalls(*of, self._sizes, self._known)
        rest = calls.note(batches, self._recording)
        found = None
        if len(calls):
            self.variant.pause = self.variant.paused = 0
            found = calls.run(self.seen.arrays)
        calls.clear()
        self._noted = calls
        return found, rest


def _never(args: Any) -> int:
    """What `again` says of arguments that are not as they were."""
    return -1


def steady(
    variant: Variant, args: Sequence[Any], axes: Sequence[Axes], before: list[Any]
) -> Steady | None:
    """The short way for further calls like the one that was just made; None if there is none.
    `before` has that of earlier calls, which is used again or let go: it sees the state.

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
    wanted = [kind_of(x, named) for x, named in zip(args, axes, strict=True)]
    _lengthen_pause(variant)
    old = before.pop()
    if isinstance(old, Steady) and old.takes(variant, wanted, axes):
        return old if old.look_again() and old.holds() else None
    del old
    found = Steady(variant, wanted, axes)
    if not found.seen.is_alone():
        return None
    found.watch()
    return found if found.holds() else None


def _lengthen_pause(v: Variant) -> None:
    """A short way is prepared: the next one after a pause, a longer one each time."""
    v.paused, v.pause = v.pause, min(2 * v.pause + 1, _LONGEST_PAUSE)


def _fits(h: Held) -> bool:
    """Whether a tensor of the state holds what the program can take as it is."""
    t = h.tensor()
    if t is None:
        return False
    a = t.value
    return ((h.checked_array() is a and t.node is h.node) or h.fits(a, t.node)) and h.plain


def _is_usable(h: HeldGrad) -> bool:
    """The same of a gradient."""
    if not _stays(h):
        return False
    if not (h.read or h.written):
        return True
    g = h.tensor().node.extra.grad  # type: ignore[union-attr]
    a = g.value
    if a.shape != h.spec.shape or a.dtype != h.spec.dtype:
        return False
    return is_writable(a) if h.written else a.flags.num & READY == READY


def _stays(h: HeldGrad) -> bool:
    """Whether there is a gradient after a call just if there must be one before it."""
    t = h.tensor()
    if t is None or t.node is None or t.node.extra is None:
        return False
    there = t.node.extra.grad is not None
    if (h.read or h.written) and not there:
        return False
    return (h.first is None or h.first is there) and (h.last is None or h.last is there)
