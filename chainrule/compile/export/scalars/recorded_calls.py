"""From a call of a compiled function of `Value`s to the program that `to_c` or `to_wasm` writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chainrule.compile.export.call_data import argument_names
from chainrule.compile.export.loop_program import LoopProgram
from chainrule.compile.export.scalars.arguments import arguments_of
from chainrule.compile.export.scalars.inputs import Arguments, given_of
from chainrule.compile.export.scalars.lengths import program_of_lengths
from chainrule.compile.export.scalars.program import ScalarProgram
from chainrule.compile.scalars.call import Scalars
from chainrule.compile.scalars.gathers import NONE
from chainrule.errors import TraceError


def recorded_program(
    scalars: Scalars,
    f: Callable[..., Any],
    calls: Sequence[tuple[Any, Any]],
    what: str,
) -> LoopProgram:
    """The program of calls with these arguments and keywords, of which the first decides which one
    it is; `what` is the method that asks.

    Raises `TraceError` if there is none, `ConfigError` if the calls lead to several.
    """
    args, kwargs = calls[0]
    found = [given_of(*call) for call in calls]
    ints = [[x for x in leaves if type(x) is int] for leaves, _ in found]
    try:
        variant = scalars.variant_for(args, kwargs, ints)
    except TraceError as error:
        raise TraceError(f"{what}: {str(error).removeprefix('jit: ')}") from error
    leaves, structure = found[0]
    if any(other != structure for _, other in found):
        return program_of_lengths(scalars, f, calls, found, what)
    names = dict(enumerate(argument_names(f, structure)))
    given = Arguments(leaves, structure, arguments_of(names, structure, leaves))
    for more, other in found[1:]:
        given.compare(more, other, variant, what)
    chosen = variant.chosen(ints[0])
    program = ScalarProgram(f, variant, given, NONE if chosen is None else chosen, what)
    return program.written([leaves for leaves, _ in found])
