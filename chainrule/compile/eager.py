"""Kernels for eager calls: one for all sizes, made of a function when it is first called.

See `ops/fusing.py`, which says what is run like this. Where a kernel comes from the cache, nothing
of the compiler is loaded but what runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from chainrule.compile.runtime import kernel_entry
from chainrule.compile.runtime.kernel_entry import KernelEntry
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.prepared import Prepared
from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array


def kernel(
    name: str, f: Callable[[Sequence[Any]], Any], letters: Sequence[str], dtypes: Sequence[Dtype]
) -> EagerKernel:
    """The function f, of a list of tensors, as a kernel. A letter names each axis of each of them;
    axes of one letter have one size. The result is a tensor or a list of tensors.

    `name` tells f from all other functions; f is a function of this package, so that the name and
    the package's source say what it computes.
    """
    name = f"{name} {[*letters]} {[d.name for d in dtypes]}"
    entry = kernel_entry.get(name)
    loaded = None if entry is None else entry.load()
    if entry is None or loaded is None:
        from chainrule.compile.traced_kernel import compiled

        entry, loaded = compiled(f, letters, dtypes)
        if entry.program:
            kernel_entry.put(name, entry, loaded)
    return EagerKernel(loaded, entry)


@final
class EagerKernel:
    """A compiled function; its scratch memory is that of the sizes that it was called at last."""

    def __init__(self, loaded: Loaded, entry: KernelEntry) -> None:
        self._loaded, self._args, self._places = loaded, entry.args, entry.places
        self._latest: tuple[tuple[int, ...], Prepared | None] = (), None

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run it on arrays in C's order; returns new ones."""
        inputs = [arrays[i] for i in self._args]
        sizes = tuple([inputs[i].shape[a] for i, a in self._places])
        before, prepared = self._latest
        if prepared is None or sizes != before:
            self._loaded.forget()
            prepared = self._loaded.prepared(len(inputs), ())
            self._latest = sizes, prepared
        return prepared(inputs, sizes)
