"""Calls of a compiled function as files: of tensors or of `Value`s, in C or in WebAssembly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from chainrule.compile.c.export import export, spread_first
from chainrule.compile.export.call_data import Call
from chainrule.compile.export.loop_program import LoopProgram
from chainrule.compile.runtime.call.arguments import Arguments
from chainrule.compile.runtime.call.traces import Traces
from chainrule.compile.runtime.native_program import without_machine_code
from chainrule.compile.trace.variant import Variant

Keywords = Mapping[str, Any]


@final
class Exporter:
    """Writes calls of f, which takes `arguments` and is traced to `variants`; a call whose leaves
    are `of_values` is one of the compiled forms that `scalars` gives."""

    def __init__(
        self,
        f: Callable[..., Any],
        arguments: Arguments,
        variants: Traces,
        of_values: Callable[[Sequence[Any]], bool],
        scalars: Callable[[], Any],
    ) -> None:
        self._f, self._arguments, self._variants = f, arguments, variants
        self._of_values, self._scalars = of_values, scalars

    def to_c(
        self,
        path: str | Path,
        args: Sequence[Any],
        kwargs: Keywords,
        batches: Iterable[Sequence[Any]] | None,
    ) -> Any:
        """See `Jitted.to_c`."""
        first, calls = spread_first([args] if batches is None else batches)
        like = args or first
        given = self._arguments.given(tuple(like), dict(kwargs))
        if self._of_values(given.leaves):
            from chainrule.compile.c.loops_export import export_loops

            return export_loops(path, self._f, self.scalar_program(calls, kwargs, "to_c"))
        variant, call = self._recorded(like, kwargs)
        leaves = (self._arguments.given(tuple(x), dict(kwargs)).leaves for x in calls)
        return export(path, self._f, variant, call, leaves)

    def to_wasm(
        self,
        path: str | Path,
        args: Sequence[Any],
        kwargs: Keywords,
        largest: Mapping[str, int] | None,
        *,
        loader: bool,
    ) -> Path:
        """See `Jitted.to_wasm`."""
        from chainrule.compile.wasm.loader import write_loader
        from chainrule.compile.wasm.loops_writing import write_loops
        from chainrule.compile.wasm.writing import write

        if self._of_values(self._arguments.given(tuple(args), dict(kwargs)).leaves):
            program = self.scalar_program([args], kwargs, "to_wasm")
            file = write_loops(path, self._f, program, largest)
        else:
            variant, call = self._recorded(args, kwargs)
            file = write(path, self._f, variant, call, largest)
        if loader:
            write_loader(file.parent)
        return file

    def scalar_program(
        self, calls: Iterable[Sequence[Any]], kwargs: Keywords, what: str
    ) -> LoopProgram:
        """The program of a function of `Value`s, and the calls that the method `what` writes."""
        from chainrule.compile.export.scalars.recorded_calls import recorded_program

        given = [(args, kwargs) for args in calls]
        return recorded_program(self._scalars(), self._f, given, what)

    def _recorded(self, args: Sequence[Any], kwargs: Keywords) -> tuple[Variant, Call]:
        """A new trace for these arguments, and the call."""
        given = self._arguments.given(tuple(args), dict(kwargs))
        with without_machine_code():
            return self._variants.record(given), Call(given.leaves, given.structure)
