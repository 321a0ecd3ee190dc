"""Kernels for eager calls: one for all sizes, made of a function when it is first called.

See `ops/fusing.py`, which says what is run like this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, final

import numpy as np

from chainrule.compile.graph.sizes import about
from chainrule.compile.runtime.backend import without_gc
from chainrule.compile.runtime.call.dynamic_axes import record_sized
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.runtime.prepared import Prepared
from chainrule.compile.trace.assemble import Call
from chainrule.engine.dtypes import Dtype
from chainrule.engine.op import Array

_FIRST, _STEP = 11, 6
"""Sizes that a function is traced at first: none is a special case, and no two are equal."""
_MOSTLY = 512
"""What sizes mostly are like: arrays are large."""


def kernel(
    f: Callable[[Sequence[Any]], Any], letters: Sequence[str], dtypes: Sequence[Dtype]
) -> EagerKernel:
    """The function f, of a list of tensors, as a kernel. A letter names each axis of each of them;
    axes of one letter have one size. The result is a tensor or a list of tensors."""
    names = sorted(set("".join(letters)))
    sizes = {n: _FIRST + _STEP * i for i, n in enumerate(names)}
    examples = [
        np.broadcast_to(np.zeros((), d), [sizes[n] for n in axes])
        for axes, d in zip(letters, dtypes, strict=True)
    ]

    def call(given: Any) -> Any:
        return f([given[i] for i in range(len(letters))])

    with without_gc():  # in a context of its own: who records or is handed ops here is not there
        variant = Context().run(
            record_sized,
            "a composite",
            examples,
            [_symbols_of_axes(axes) for axes in letters],
            Call(call, ()),
        )
    run: Any = variant.run
    return EagerKernel(run, variant.args)


def _symbols_of_axes(axes: str) -> dict[int, str]:
    return {i: about(letter, _MOSTLY) for i, letter in enumerate(axes)}


@final
class EagerKernel:
    """A compiled function; its scratch memory is that of the sizes that it was called at last."""

    def __init__(self, sized: Sized, args: Sequence[int]) -> None:
        self._native = sized.run
        self._args = args
        self._places = [(i, a) for _, i, a in sized.places]
        self._latest: tuple[tuple[int, ...], Prepared | None] = (), None

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run it on arrays in C's order; returns new ones."""
        inputs = [arrays[i] for i in self._args]
        sizes = tuple([inputs[i].shape[a] for i, a in self._places])
        before, prepared = self._latest
        if prepared is None or sizes != before:
            self._native.forget()
            prepared = self._native.prepared(len(inputs), ())
            self._latest = sizes, prepared
        return prepared(inputs, sizes)
