"""`step.to_wasm(path, ...)`: what a compiled function would run, as one WebAssembly module.

The module imports nothing. It has its state and its inputs as they are now, and a section
`chainrule` that says in JSON where what lies in its memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import llvmlite.binding  # pyright: ignore[reportMissingTypeStubs]

from chainrule.compile.export.given import (
    Call,
    Given,
    batch_of,
    given_of,
    program_of,
    refuse_changing,
    result_names,
    state_of,
    without_folders,
)
from chainrule.compile.llvm.passes import run_passes
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Host, Kernel, Routine, single, statements
from chainrule.compile.running.block import Layout
from chainrule.compile.running.making import scheduled
from chainrule.compile.terms.sizes import Extent
from chainrule.compile.tracing.state import Variant
from chainrule.compile.wasm.emission import STEP, STEPS, emit
from chainrule.compile.wasm.layout import STACK, Addresses, Region, placed, put, room
from chainrule.compile.wasm.linking import Start, linked
from chainrule.compile.wasm.object_file import ObjectFile, read
from chainrule.compile.wasm.support import definitions
from chainrule.compile.wasm.target import WASM, machine
from chainrule.errors import ConfigError, TraceError

llvm: Any = llvmlite.binding
SECTION: Final = "chainrule"
VERSION: Final = 1
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
    name = getattr(f, "__name__", "step")
    file = Path(path) if Path(path).suffix == ".wasm" else Path(path) / f"{name}.wasm"
    data = module_of(f, variant, call, largest or {})
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.part")
    part.write_bytes(data)
    part.replace(file)
    return file


def module_of(
    f: Callable[..., Any], variant: Variant, call: Call, largest: Mapping[str, int]
) -> bytes:
    """The bytes of the module."""
    refuse_changing(variant, "to_wasm")
    _refuse_draws(variant)
    native, _ = program_of(variant)
    given = given_of(f, variant, call, "to_wasm")
    batch, state = batch_of(variant, call.leaves, "to_wasm"), state_of(variant, "to_wasm")
    loops, layout = scheduled(native.program, WASM)
    _refuse_eager(loops.kernels)
    sizes = _largest(batch.sizes, largest)
    addresses = placed(layout, given, sizes)
    if addresses.end >= MOST:
        raise ConfigError(
            f"to_wasm: the program needs {addresses.end:,} bytes, and a module has at most "
            f"{MOST:,}: make the batch smaller"
        )
    start = _start(layout, addresses, given, [*state], [*batch.record(layout.symbols)])
    about = _about(f, layout, addresses, given, list(native.checks), sizes)
    return linked(
        _object(emit(loops, addresses)),
        {STEP: STEP, STEPS: STEPS},
        stack=STACK,
        data=addresses.end,
        start=start,
        sections={SECTION: json.dumps(about, separators=(",", ":")).encode()},
    )


def _object(text: str) -> ObjectFile:
    """The object file of a module, with all that it calls."""
    found = read(_compiled(text))
    return read(_compiled(text + definitions(found.missing))) if found.missing else found


def _compiled(text: str) -> bytes:
    to = machine()
    made = run_passes(f'target datalayout = "{to.target_data}"\n{text}', to)
    return to.emit_object(made)


def _largest(now: Mapping[str, int], largest: Mapping[str, int]) -> dict[str, int]:
    """By symbol, the size for which there is to be room: at least that of the arguments."""
    for s in largest:
        if s not in now:
            known = f"there are {', '.join(now)}" if now else "the function has none"
            raise ConfigError(f"to_wasm: largest names {s!r}, which is no dynamic size; {known}")
    return {s: max(n, largest.get(s, n)) for s, n in now.items()}


def _start(
    layout: Layout,
    addresses: Addresses,
    given: Sequence[Given],
    state: list[Any],
    record: list[Any],
) -> Start:
    """Memory as it is before the first call: the state, and what the call is given."""
    region = Region(addresses.state.begin, addresses.call.end)
    data = bytearray(region.size)
    sizes, *arrays = record
    for address, n in zip(addresses.sizes.values(), sizes, strict=True):
        put(data, region, address, n)
    for b, g in zip(layout.objects, given, strict=False):
        if g.read:
            value = arrays.pop(0) if g.each_step else state.pop(0)
            put(data, region, addresses.buffers[b], value)
    assert not arrays and not state
    return Start(region.begin, bytes(data))


# --- what the module says of itself --------------------------------------------------------------


def _about(
    f: Callable[..., Any],
    layout: Layout,
    addresses: Addresses,
    given: Sequence[Given],
    checks: Sequence[str],
    sizes: Mapping[str, int],
) -> dict[str, Any]:
    """What the loader reads."""
    inputs, results = layout.objects[: len(given)], layout.objects[len(given) :]
    specs = [(s.shape, s.dtype) for s in layout.results]
    outside = addresses.buffers[results[-1]] if checks else None
    if checks:
        results, specs = results[:-1], specs[:-1]
    names = result_names(f, len(results))

    def entry(name: str, about: str, b: Buffer, shape: Sequence[Extent], dtype: Any) -> Any:
        return {
            "name": name,
            "about": about,
            "dtype": _dtype(dtype),
            "shape": [_extent(n) for n in shape],
            "address": addresses.buffers[b],
            "bytes": room(b, sizes),
        }

    read = [
        (g.each_step, entry(g.path, g.about, b, b.shape, b.dtype))
        for g, b in zip(given, inputs, strict=True)
    ]
    return {
        "version": VERSION,
        "name": getattr(f, "__name__", "step"),
        "sizes": [
            {"name": s, "address": at, "largest": sizes[s]} for s, at in addresses.sizes.items()
        ],
        "inputs": _named([e for each, e in read if each]),
        "state": _named([e for each, e in read if not each]),
        "results": _named(
            [
                entry(name, "result", b, shape, dtype)
                for name, b, (shape, dtype) in zip(names, results, specs, strict=True)
            ]
        ),
        "call": [addresses.call.begin, addresses.call.size],
        "returned": [addresses.results.begin, addresses.results.size],
        "outside": None
        if outside is None
        else {"address": outside, "words": [*map(without_folders, checks)]},
    }


def _named(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, each under a name of its own: `x`, then `x_2`, `x_3`."""
    taken: set[str] = set()
    for e in entries:
        name, n = e["name"], 1
        while e["name"] in taken:
            n += 1
            e["name"] = f"{name}_{n}"
        taken.add(e["name"])
    return entries


def _dtype(dtype: Any) -> str:
    return "bfloat16" if dtype.kind == "V" else dtype.name


def _extent(n: Extent) -> Any:
    """A size: a number, or a sum of [factor, [names of sizes]]."""
    return n if isinstance(n, int) else [[c, list(names)] for names, c in n.terms]


# --- what cannot be ------------------------------------------------------------------------------


def _refuse_draws(variant: Variant) -> None:
    """An error for random numbers: a module has no generator."""
    if variant.draws:
        raise TraceError(
            "to_wasm: the function draws random numbers, which a module cannot: draw them outside "
            "and hand them to it as an argument (dropout: model.eval() switches it off)"
        )


def _refuse_eager(kernels: Sequence[Kernel]) -> None:
    """An error for an op that has no loops, or those of LAPACK."""
    for k in single(kernels):
        if any(isinstance(s, Host | Routine) for s in statements(k.body)):
            what, _, place = k.about[0].partition("  ")
            raise TraceError(
                f"to_wasm: {what.split()[0]} has no loops of its own: it is a call of LAPACK or of "
                f"Python, at {place or 'a line that is not known'}. Take it out of the compiled "
                "function, or compute it with other ops"
            )
