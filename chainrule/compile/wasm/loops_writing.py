"""A program that is loops already as one WebAssembly module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chainrule.compile.export.call_data import file_of
from chainrule.compile.export.loop_program import LoopProgram, Memory
from chainrule.compile.loops import memory
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.runtime.scratch import Layout
from chainrule.compile.wasm.description import Entry, described
from chainrule.compile.wasm.emission import emit
from chainrule.compile.wasm.layout import Addresses, Inputs, assign_addresses
from chainrule.compile.wasm.linking import Start, merge_adjacent
from chainrule.compile.wasm.writing import largest_sizes, linked
from chainrule.files.whole_files import write_whole


def write_loops(
    path: str | Path,
    f: Callable[..., Any],
    program: LoopProgram,
    largest: Mapping[str, int] | None,
) -> Path:
    """Write a program of `f`, which has its state and the arguments of its first call, and no
    dynamic sizes that could be the `largest`."""
    largest_sizes({}, largest or {})
    file = file_of(path, f, ".wasm")
    data = _module_of(f, program)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, data)
    return file


def _module_of(f: Callable[..., Any], program: LoopProgram) -> bytes:
    """The bytes of a module whose function runs these loops once."""
    loops = program.loops
    scratch = [b for b in loops.buffers if b.role == "scratch"]
    lives = memory.lifetimes(loops, scratch)
    layout = Layout((), program.objects, [], scratch, lives)
    outside = [] if program.outside is None else [program.outside]
    state, call, results = [
        [m.buffer for m in held] for held in (program.state, program.inputs, program.results)
    ]
    addresses = assign_addresses(layout, Inputs(state, call, [], [*results, *outside]), [], {})
    at = addresses.buffers
    starts = [Start(at[m.buffer], m.value.tobytes()) for m in (*program.state, *program.inputs)]
    asked = None if program.outside is None else (len(program.phases[0][1]), program.outside)
    about = described(
        f,
        addresses,
        [],
        (
            _entries(program.inputs, addresses),
            _entries(program.state, addresses),
            _entries(program.results, addresses),
        ),
        at[program.outside] if program.outside is not None else None,
        program.checks,
    )
    return linked(emit(loops, addresses, [], asked), addresses, merge_adjacent(starts), about)


def _entries(held: Sequence[Memory], addresses: Addresses) -> list[Entry]:
    """Of each array its parts, where these have names, or itself."""
    out: list[Entry] = []
    for m in held:
        b: Buffer = m.buffer
        for p in m.named():
            out.append(
                {
                    "name": p.path,
                    "about": p.about,
                    "dtype": b.dtype.name,
                    "shape": list(p.shape),
                    "address": addresses.buffers[b] + p.start * b.dtype.itemsize,
                    "bytes": p.size * b.dtype.itemsize,
                }
            )
    return out
