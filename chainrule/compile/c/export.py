"""`step.to_c(path, ...)`: what a compiled function would run, in C, and the data beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from chainrule.compile.c.main import data_of
from chainrule.compile.c.source import Source
from chainrule.compile.export.call_data import (
    Call,
    describe_inputs,
    file_of,
    name_results,
    program_of,
    read_batch,
    read_state,
    refuse_changing,
)
from chainrule.compile.graph.terms import Program
from chainrule.compile.trace.variant import Variant
from chainrule.errors import ConfigError
from chainrule.files.whole_files import write_whole

T = TypeVar("T")


class Exported(NamedTuple):
    """The two files."""

    source: Path
    data: Path


def export(
    path: str | Path,
    f: Callable[..., Any],
    variant: Variant,
    first: Call,
    calls: Iterable[Sequence[Any]],
) -> Exported:
    """Write the program of `variant`, and its data.

    `variant` is what `f` was traced to on the arguments `first`.
    `calls` are the leaves of the arguments of each call. They are made in turn: between two of them
    their iterator may do what a training loop does.
    """
    refuse_changing(variant, "to_c")
    native, places = program_of(variant)
    program: Program = native.program
    state = read_state(variant, "to_c")
    batches = [read_batch(variant, leaves, "to_c") for leaves in calls]
    largest = {s: max([b.sizes[s] for b in batches]) for s, _, _ in places}
    source = Source(
        program,
        describe_inputs(f, variant, first, "to_c"),
        name_results(f, len(program.results) - bool(native.checks)),
        largest=largest,
        checks=native.checks,
    )
    file = file_of(path, f, ".c")
    data = file.with_suffix(".bin")
    steps = len(batches) if len(batches) > 1 else 100
    given = zip(program.inputs, source.given, strict=True)
    parameters = sum([math.prod(t.shape) for t, g in given if g.about == "parameter"])
    text = source.text(title(f, file, parameters), data.name, steps)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)
    constants = [a.value for a in source.read_constants]
    records = [b.record(source.symbols) for b in batches]
    write_whole(data, data_of([*state, *constants], records))
    return Exported(file, data)


def title(f: Callable[..., Any], file: Path, parameters: int) -> list[str]:
    """What a file says first, of a function with so many parameters."""
    code = getattr(f, "__code__", None)
    place = f" of {Path(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""
    made = f", which has {parameters:,} parameters" if parameters else ""
    stem = file.stem
    return [
        f"{getattr(f, '__name__', 'a function')}(){place} in C, written by chainrule{made}.",
        "",
        f"  gcc -O2 -std=c99 {file.name} -o {stem} -lm && ./{stem}",
        "",
        f"Reads {stem}.bin: what there was when it was written, and the data. After the name can",
        f"come the number of steps, another path of {stem}.bin, and a file for the state that is",
        "left at the end. With -O3 -march=native it is faster.",
    ]


def spread_first(calls: Iterable[T]) -> tuple[T, Iterator[T]]:
    """The first call, and all of them; the others are asked for later."""
    rest = iter(calls)
    for first in rest:
        return first, chain([first], rest)
    raise ConfigError("to_c: there is no batch to write")
