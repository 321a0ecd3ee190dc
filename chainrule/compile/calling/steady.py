"""The short way of a call that is like the one before.

In a training loop every call finds the same tensors with the same arrays as the last one left them,
and only the arguments are new. Then the addresses of all other arrays are known already. Whether
the call is like that is asked of all tensors at once, by functions that run in C; if it is not, the
long way of `Variant.call` is taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from operator import attrgetter, is_
from sys import getrefcount
from typing import Any, final

import numpy as np

from chainrule.compile.calling.axes import Axes, Sized
from chainrule.compile.llvm.objects import slots, word
from chainrule.compile.rewriting.bounds import refuse
from chainrule.compile.running.gate import Gate, gate
from chainrule.compile.running.program import Entered, Moving, Native, Parts
from chainrule.compile.tracing.state import MISFIT, HeldGrad, Variant
from chainrule.graph import is_recording, variable
from chainrule.tensor import Tensor

_value, _node, _grad = attrgetter("value"), attrgetter("node"), attrgetter("grad")


@final
class Steady:
    """A variant, and the arrays that its state had when it was called last."""

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
        self._tensors: list[Any] = [h.tensor() for h in variant.held]
        self._arrays = [t.value for t in self._tensors]
        self._nodes = [t.node for t in self._tensors]
        pairs = zip(variant.held, self._arrays, strict=True)
        self._written = [a for h, a in pairs if h.updated]
        slots: list[Any] = [g.tensor() for g in variant.grads]
        self._extras = [t.node.extra for t in slots]
        self._grads = [x.grad for x in self._extras]
        used = [g for g, h in zip(self._grads, variant.grads, strict=True) if h.read or h.written]
        self._slots = used
        self._slot_arrays = [g.value for g in used]
        self._reads = [n.read for n in variant.numbers]
        self._guards = variant.guards
        numbers = [n.array for n in variant.numbers]
        fixed = [*self._arrays, *self._slot_arrays, *numbers]
        run: Any = variant.run
        self._native: Native = run.run if isinstance(run, Sized) else run
        # sizes at which the program is known to hold, at others the long way asks
        self._known = run.known if isinstance(run, Sized) else {(): True}
        self._sizes = [(i, a) for _, i, a in run.places] if isinstance(run, Sized) else []
        self._unchanged = self._native.unchanged
        self.repeats = not self._native.hosts
        self._call = self._native.prepared(len(variant.args), fixed)
        more = bool(self._native.hosts)  # then the prepared call holds the arrays, too
        self._alone = [_ALONE + more] * len(self._written)
        self._alone_slots = [_ALONE] * len(used)
        self._alone_grads = [_ALONE - 1 + more] * len(used)
        self._finish = variant.finish
        self._rows: Any = None
        self._axes = axes
        self._gate: Gate | None = None
        self._again: Any = None
        self._entered: dict[int, Entered] = {}

    def watch(self) -> None:
        """Note addresses, and the words that are there while the state is as it is: if what an
        object holds can be seen."""
        places = slots()
        if places is None:
            return
        value, node, grad = places
        rows: list[int] = []
        t = a = n = x = g = None
        for t, a, n in zip(self._tensors, self._arrays, self._nodes, strict=True):
            rows += [id(t) + value, id(a), id(t) + node, id(n)]
        for x, g in zip(self._extras, self._grads, strict=True):
            rows += [id(x) + grad, id(g)]
        del t, a, n, x, g  # they would count
        counted = [*map(id, self._written), *map(id, self._slots), *map(id, self._slot_arrays)]
        for address in counted:
            rows += [address, word(address)]
        self._rows = (ctypes.c_int64 * len(rows))(*rows)
        if not self._native.hosts:
            args = self.variant.args
            self._gate = gate(self._native.code, self._wanted, self._axes, args, rows)
            self._again = self._gate and self._gate.again

    def holds(self) -> bool:
        """Whether the state is as the last call left it, and seen by nobody else."""
        rows = self._rows
        if rows is None:
            if not self.is_alone():
                return False
        elif not self._unchanged(rows, len(rows) // 2):
            return False
        return self._settings_hold()

    def _settings_hold(self) -> bool:
        """Whether numbers and guards fit; the numbers are taken over."""
        for n in self.variant.numbers:
            value = n.read()
            if value is not n.last and not n.fits(value):
                return False
        return not [1 for guard in self._guards if not guard()]  # faster than all()

    def is_alone(self) -> bool:
        """The same of the tensors alone, asked in Python."""
        tensors = self._tensors
        return (
            all(map(is_, map(_value, tensors), self._arrays))
            and all(map(is_, map(_node, tensors), self._nodes))
            and list(map(getrefcount, self._written)) == self._alone
            and all(map(is_, map(_grad, self._extras), self._grads))
            and list(map(getrefcount, self._slots)) == self._alone_slots
            and list(map(getrefcount, self._slot_arrays)) == self._alone_grads
        )

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
        numbers: list[list[float]] = []
        rest, reads, given_of = None, self._reads, self._given
        for batch in batches:
            given = given_of(batch)
            if given is None or not self._fitting(given):
                rest = batch
                break
            rows.append(given)
            numbers.append([read() for read in reads])
        if not rows:
            return None, rest
        return self._turns(rows, numbers), rest

    def _fitting(self, given: Sequence[Any]) -> bool:
        return tuple([given[i].shape[a] for i, a in self._sizes]) in self._known

    def _turns(self, rows: list[list[Any]], numbers: list[list[float]]) -> list[Any]:
        native, count = self._native, len(rows[0])
        given = list(zip(*rows, strict=True))
        sizes = [[x.shape[a] for x in given[i]] for i, a in self._sizes]
        shapes = list(zip(*sizes, strict=True)) if sizes else [()] * len(rows)
        blocks = {s: native.block(s) for s in set(shapes)}
        every = [blocks[s] for s in shapes]
        outs = [np.empty((len(rows), *shape), dtype) for shape, dtype in every[0].shapes]
        settings = [np.array(column, np.float64) for column in zip(*numbers, strict=True)]
        kept = [Parts(x) for x in [*settings, *outs]]
        stay = [*self._arrays, *self._slot_arrays]
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
    if not found.is_alone():
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


def _count() -> int:
    """What `getrefcount` says in `Steady.holds` of an array that only a tensor and two lists hold:
    it depends on the interpreter."""
    tensor = variable(np.zeros(3))
    lists = [tensor.value], [tensor.value]
    return next(map(getrefcount, lists[1]))


_ALONE = _count()
