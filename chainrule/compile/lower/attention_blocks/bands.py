"""Bands found and written: a pass over loops."""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.loops.statements import Loops
from chainrule.compile.lower.attention_blocks import band_search
from chainrule.compile.lower.attention_blocks.band_kernel import Writer
from chainrule.compile.lower.attention_blocks.band_types import Call, Rows, Uses
from chainrule.compile.lower.attention_blocks.row_addresses import fit_band


def merge_bands(program: Loops) -> Loops:
    """The program with such kernels made one."""
    at, uses = 0, Uses()
    while at < len(program.kernels):
        found = _band(program, at, uses)
        if found is not None:
            program = found
        at += 1
    return program


def _band(program: Loops, at: int, uses: Uses) -> Loops | None:
    """The program in which kernel `at`, of rows, is part of a band; of one with other kernels of
    rows if there is one."""
    rows = band_search.rows_of(program.kernels[at])
    if rows is None:
        return None
    for several in (True, False):
        parts = band_search.band_candidates(program.kernels, at, rows, uses, several=several)
        found = _of(program, parts, uses) if parts else None
        if found is not None:
            return found
    return None


def _of(program: Loops, parts: list[Rows | Call], uses: Uses) -> Loops | None:
    """The program in which these are a band."""
    kernels = program.kernels
    order = band_search.together(kernels, parts, uses)
    if order is None:
        return None
    before, taken, after, first, last = order
    band = fit_band(kernels, taken, uses)
    if band is None:
        return None
    kernel, buffers = Writer(band).kernel()
    gone = set(band.addresses)
    return replace(
        program,
        buffers=[*[b for b in program.buffers if b not in gone], *buffers],
        kernels=[*kernels[:first], *before, kernel, *after, *kernels[last + 1 :]],
    )
