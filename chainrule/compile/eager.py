"""Kernels for eager calls: one for all sizes, made of a function when it is first called.

See `ops/fusing.py`, which says what is run like this. Where a kernel comes from the cache, nothing
of the compiler is loaded but what runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from chainrule.compile.cpu.call_plan import AXES
from chainrule.compile.cpu.object_layout import arrays_are_known
from chainrule.compile.runtime.cache import kernels
from chainrule.compile.runtime.cache.kernels import KernelEntry
from chainrule.compile.runtime.entry_point import Kinds, WayIn
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.prepared_calls import Entered
from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array

MOST_SCRATCH = 1 << 24
"""Bytes of scratch memory that the calls of a kernel keep: a network has layers of several sizes,
which take turns."""
MOST_SIZES = 64
"""For so many sizes at most."""
Shape = tuple[int, ...]
Direct = Callable[[tuple[Array, ...]], list[Array] | None]
"""Runs a kernel; None if the arrays are not those that it is for."""


def kernel(
    name: str, f: Callable[[Sequence[Any]], Any], letters: Sequence[str], dtypes: Sequence[Dtype]
) -> EagerKernel:
    """The function f, of a list of tensors, as a kernel. A letter names each axis of each of them;
    axes of one letter have one size. The result is a tensor or a list of tensors.

    `name` tells f from all other functions; f is a function of this package, so that the name and
    the package's source say what it computes.
    """
    return _kernel(name, f, letters, dtypes)


def updating_kernel(
    name: str, f: Callable[[Sequence[Any]], Any], letters: Sequence[str], dtypes: Sequence[Dtype]
) -> EagerKernel:
    """The same of a function whose results are new values of its first arguments: the kernel writes
    to these, and returns nothing."""
    return _kernel(f"{name}, in place", f, letters, dtypes, updates=True)


def _kernel(
    name: str,
    f: Callable[[Sequence[Any]], Any],
    letters: Sequence[str],
    dtypes: Sequence[Dtype],
    *,
    updates: bool = False,
) -> EagerKernel:
    """The function as a kernel, from the cache if it is there."""
    name = f"{name} {[*letters]} {[d.name for d in dtypes]}"
    entry = kernels.get(name)
    loaded = None if entry is None else entry.load()
    if entry is None or loaded is None:
        from chainrule.compile.traced_kernel import compiled

        entry, loaded = compiled(f, letters, dtypes, updates=updates)
        if entry.program:
            kernels.put(name, entry, loaded)
    return EagerKernel(loaded, entry, len(letters))


@final
class EagerKernel:
    """A compiled function. `at` gives it for certain sizes."""

    def __init__(self, loaded: Loaded, entry: KernelEntry, count: int) -> None:
        self._loaded, self._args, self._places = loaded, entry.args, entry.places
        known = arrays_are_known()
        self._way = WayIn.of_arrays(loaded.code, entry.args, count) if known else None
        self._kept: dict[EagerCall, int] = {}
        """The calls that have scratch memory, and how many bytes."""

    def at(self, shapes: Sequence[Shape], results: Sequence[Shape], given: Kinds = ()) -> EagerCall:
        """The kernel for arguments of these shapes, an axis for each letter; the shapes that
        results are to have. It is for arrays of the kinds that are `given` only, if these are."""
        sizes = tuple([shapes[self._args[i]][a] for i, a in self._places])
        return EagerCall(self, sizes, results, given)

    def enter(self, call: EagerCall) -> Direct:
        """What runs the kernel at the sizes of `call`."""
        loaded, given = self._loaded, call.given
        if loaded.layout.scratch:
            with loaded.lock:
                self._keep(call)
        prepared = loaded.prepared(len(self._args), ())
        seen = all(len(shape) <= AXES for shape, _ in given)
        if self._way is not None and seen:
            entered = Entered(prepared, self._way, call.sizes, call.results, given)
            call.write = entered.run_into
            return entered.caller()
        args = self._args

        def run(arrays: tuple[Array, ...]) -> list[Array] | None:
            if given and not _are(given, arrays):
                return None
            made = prepared([arrays[i] for i in args], call.sizes)
            return [y.reshape(s) for y, s in zip(made, call.results, strict=True)]

        return run

    def _keep(self, call: EagerCall) -> None:
        """Take scratch memory for a call; from the oldest ones, where that is too much."""
        kept, loaded = self._kept, self._loaded
        kept[call] = loaded.block(call.sizes).size
        while len(kept) > 1 and (sum(kept.values()) > MOST_SCRATCH or len(kept) > MOST_SIZES):
            old = next(iter(kept))
            del kept[old]
            old.run = old.write = None
            if all(other.sizes != old.sizes for other in kept):
                loaded.forget(old.sizes)

    @property
    def has_scratch(self) -> bool:
        """Whether its calls have scratch memory, which may be taken from them."""
        return bool(self._loaded.layout.scratch)


def _are(given: Kinds, arrays: Sequence[Any]) -> bool:
    """Whether these are arrays of the kinds that are given, in C's order."""
    return all(
        x.__class__ is np.ndarray and x.flags.c_contiguous and (x.shape, x.dtype) == kind
        for x, kind in zip(arrays, given, strict=True)
    )


@final
class EagerCall:
    """A kernel at certain sizes: `call(arrays)` takes arrays in C's order, returns new ones. It
    returns None for others than are `given`."""

    __slots__ = ("_kernel", "given", "results", "run", "sizes", "write")

    def __init__(
        self,
        kernel: EagerKernel,
        sizes: tuple[int, ...],
        results: Sequence[Shape],
        given: Kinds,
    ) -> None:
        self._kernel, self.sizes, self.results, self.given = kernel, sizes, results, given
        self.run: Direct | None = None
        self.write: Callable[[tuple[Array, ...], Sequence[Array]], Any] | None = None

    @property
    def direct(self) -> Direct:
        """What a call runs, if it has no scratch memory that another call could take from it."""
        if self._kernel.has_scratch:
            return self
        if self.run is None:
            self.run = self._kernel.enter(self)
        return self.run

    def into(self, arrays: tuple[Array, ...], results: Sequence[Array]) -> None:
        """Run it; the results go into arrays that are there, of the shapes that they are to have
        and in C's order."""
        if self.run is None:
            self.run = self._kernel.enter(self)
        if self.write is not None:
            self.write(arrays, results)
            return
        for place, y in zip(results, self(arrays) or (), strict=True):
            place[...] = y

    def __call__(self, arrays: tuple[Array, ...]) -> list[Array] | None:
        """Run it."""
        run = self.run
        if run is None:
            run = self.run = self._kernel.enter(self)
        return run(arrays)
