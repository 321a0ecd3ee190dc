"""Kernels for eager calls that no earlier process has left in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import Context
from typing import Any

import numpy as np

from chainrule.compile.graph.sizes import about
from chainrule.compile.graph.terms import Program
from chainrule.compile.runtime.backend import without_gc
from chainrule.compile.runtime.cache.kernels import KernelEntry
from chainrule.compile.runtime.call.dynamic_axes import record_sized
from chainrule.compile.runtime.call.sized_program import Sized
from chainrule.compile.runtime.loaded_program import Loaded
from chainrule.compile.runtime.native_program import Native, without_machine_code
from chainrule.compile.trace.scan_as_while import scan_as_counted_loop
from chainrule.compile.trace.variant_assembly import Call
from chainrule.engine.dtypes import Dtype
from chainrule.engine.graph import tracer
from chainrule.ops.axis_letters import shape_of

_FIRST, _STEP = 11, 6
"""Sizes that a function is traced at first: none is a special case, and no two are equal."""
_MOSTLY = 512
"""What sizes mostly are like: arrays are large."""


def compiled(
    f: Callable[[Sequence[Any]], Any],
    letters: Sequence[str],
    dtypes: Sequence[Dtype],
    *,
    updates: bool = False,
) -> tuple[KernelEntry, Loaded]:
    """The function f as a kernel, and what there is to know of it; see `eager.kernel` and, where it
    `updates` arguments, `eager.updating_kernel`. Its program has no name where it is not kept."""
    names = sorted({n for n in "".join(letters) if not n.isdigit()})
    sizes = {n: (_FIRST + _STEP * i,) for i, n in enumerate(names)}
    examples = [
        np.broadcast_to(np.zeros((), d), shape_of(axes, sizes))
        for axes, d in zip(letters, dtypes, strict=True)
    ]

    def call(given: Any) -> Any:
        if (t := tracer()) is not None:
            t.loop = scan_as_counted_loop  # how many iterations there are is not known
        return f([given[i] for i in range(len(letters))])

    # in a context of its own: who records or is handed ops here is not there
    with without_gc(), without_machine_code() if updates else nullcontext():
        variant = Context().run(
            record_sized,
            "a composite",
            examples,
            [_symbols_of_axes(axes) for axes in letters],
            Call(call, ()),
        )
    run: Any = variant.run
    sized: Sized = run
    native = sized.run
    if updates:
        native = Native(_updating(native.program, variant.args, native.checks), native.checks)
    places = {symbol: (i, a) for symbol, i, a in sized.places}
    at = [places[symbol] for symbol in native.symbols]
    return KernelEntry(native.name or "", variant.args, at, native.checks), native.loaded


def _updating(program: Program, args: Sequence[int], checks: Sequence[str]) -> Program:
    """The program whose results are new values of the first arguments; but for what it says of
    indices, if it looks at some."""
    count = len(program.results) - bool(checks)
    updates = [(args.index(k), t) for k, t in enumerate(program.results[:count])]
    return Program(program.inputs, program.results[count:], tuple(updates))


def _symbols_of_axes(axes: str) -> dict[int, str]:
    return {i: about(n, _MOSTLY) for i, n in enumerate(axes) if not n.isdigit()}
