"""`step.to_wasm(path, ...)`: what a compiled function would run, as one WebAssembly module.

The module imports nothing. It has its state and its inputs as they are now, and a section
`chainrule` that says in JSON where what lies in its memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import llvmlite.binding

from chainrule.compile.export.call_data import (
    Batch,
    Call,
    InputInfo,
    describe_inputs,
    file_of,
    program_of,
    read_batch,
    read_state,
    refuse_changing,
    refuse_eager,
)
from chainrule.compile.llvm.passes import run_passes
from chainrule.compile.runtime.build import schedule
from chainrule.compile.trace.variant import Variant
from chainrule.compile.wasm.description import Description
from chainrule.compile.wasm.draws import KINDS, state_words
from chainrule.compile.wasm.emission import STEP, STEPS, Drawing, emit
from chainrule.compile.wasm.layout import STACK, Addresses, Inputs, assign_addresses
from chainrule.compile.wasm.linking import Start, link, merge_adjacent
from chainrule.compile.wasm.object_file import ObjectFile, read
from chainrule.compile.wasm.support import DEFINITIONS, definitions
from chainrule.compile.wasm.target import WASM, machine
from chainrule.errors import ConfigError, DtypeError, TraceError
from chainrule.files.whole_files import write_whole
from chainrule.random import Draw

llvm: Any = llvmlite.binding
SECTION: Final = "chainrule"
MOST: Final = 1 << 32
"""Bytes of memory that a module can have."""


def write(
    path: str | Path,
    f: Callable[..., Any],
    variant: Variant,
    call: Call,
    largest: Mapping[str, int] | None,
) -> Path:
    """Write the program of `variant`, which `f` was traced to for the arguments `call`."""
    file = file_of(path, f, ".wasm")
    data = module_of(f, variant, call, largest or {})
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, data)
    return file


def module_of(
    f: Callable[..., Any], variant: Variant, call: Call, largest: Mapping[str, int]
) -> bytes:
    """The bytes of the module."""
    refuse_changing(variant, "to_wasm")
    native, _ = program_of(variant)
    given, draws = describe_inputs(f, variant, call, "to_wasm"), _draws(variant)
    batch = read_batch(variant, call.leaves, "to_wasm", drawn=False)
    loops, layout = schedule(native.program, WASM)
    refuse_eager(loops.kernels, "to_wasm")
    sizes = largest_sizes(batch.sizes, largest)
    inputs = Inputs.of(layout, given, sum([d.read for d in variant.draws]))
    addresses = assign_addresses(layout, inputs, [d.generator for d in draws], sizes)
    read, rest = [d.read for d in variant.draws], iter(inputs.drawn)
    drawings: list[Drawing] = []
    for draw, is_read in zip(draws, read, strict=True):
        to = next(rest) if is_read else None
        drawings.append((draw, to, math.prod(draw.shape) if to is None else to.size))
    starts = _starts(
        addresses, inputs, given, read_state(variant, "to_wasm"), batch, layout.symbols
    )
    about = Description(layout, addresses, inputs, given, sizes).of(f, native.checks)
    return linked(emit(loops, addresses, drawings), addresses, starts, about)


def linked(
    text: str, addresses: Addresses, starts: Sequence[Start], about: Mapping[str, Any]
) -> bytes:
    """The module of a program in LLVM's language, which says `about` itself where things lie."""
    if addresses.end >= MOST:
        raise ConfigError(
            f"to_wasm: the program needs {addresses.end:,} bytes, and a module has at most "
            f"{MOST:,}: make the batch smaller"
        )
    return link(
        _object(text),
        {STEP: STEP, STEPS: STEPS},
        stack=STACK,
        data=addresses.end,
        starts=starts,
        sections={SECTION: json.dumps(about, separators=(",", ":")).encode()},
    )


def _object(text: str) -> ObjectFile:
    """The object file of a module, with all that it calls."""
    found = read(_compile(text))
    unknown = [name for name in found.missing if name not in DEFINITIONS]
    if unknown:
        raise DtypeError(
            f"to_wasm: WebAssembly has no instruction for {', '.join(unknown)}, which converts "
            "numbers of half precision: compute in float32"
        )
    return read(_compile(text + definitions(found.missing))) if found.missing else found


def _compile(text: str) -> bytes:
    to = machine()
    made = run_passes(f'target datalayout = "{to.target_data}"\n{text}', to)
    return to.emit_object(made)


def largest_sizes(now: Mapping[str, int], largest: Mapping[str, int]) -> dict[str, int]:
    """By symbol, the size for which there is to be room: at least that of the arguments."""
    for s in largest:
        if s not in now:
            known = f"there are {', '.join(now)}" if now else "the function has none"
            raise ConfigError(f"to_wasm: largest names {s!r}, which is no dynamic size; {known}")
    return {s: max(n, largest.get(s, n)) for s, n in now.items()}


def _starts(
    addresses: Addresses,
    inputs: Inputs,
    given: Sequence[InputInfo],
    state: Sequence[Any],
    batch: Batch,
    symbols: Sequence[str],
) -> list[Start]:
    """Memory as it is before the first call: the state, and what the call is given."""
    sizes, *arrays = batch.record(symbols)
    read = [g.read for g in given if not g.each_step]
    held = [b for b, is_read in zip(inputs.state, read, strict=True) if is_read]
    found = [
        *zip([addresses.buffers[b] for b in held], state, strict=True),
        *[(address, state_words(g)) for g, address in addresses.generators.items()],
        *zip(addresses.sizes.values(), sizes, strict=True),
        *zip([addresses.buffers[b] for b in inputs.call], arrays, strict=True),
    ]
    return merge_adjacent([Start(address, value.tobytes()) for address, value in found])


# --- what cannot be ------------------------------------------------------------------------------


def _draws(variant: Variant) -> list[Draw]:
    """What a call draws, in order; an error for a draw that a module cannot make."""
    out: list[Draw] = []
    for d in variant.draws:
        if not isinstance(d.take, Draw) or d.take.kind not in KINDS:
            kind = d.take.kind if isinstance(d.take, Draw) else "a draw within a scan"
            raise TraceError(
                f"to_wasm: {kind} has no code in WebAssembly; there is {', '.join(KINDS)}. Draw it "
                "outside, and hand it to the function as an argument"
            )
        out.append(d.take)
    return out
