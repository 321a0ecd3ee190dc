"""Bands found and written: a pass over loops."""

from __future__ import annotations

from dataclasses import replace

from chainrule.compile.banding import finding
from chainrule.compile.banding.parts import Call, Rows, Uses, nested
from chainrule.compile.banding.places import kept
from chainrule.compile.banding.writing import SMALL, Writer
from chainrule.compile.loops.language import Gemm, Loops, statements


def banded(program: Loops) -> Loops:
    """The program with such kernels made one."""
    at, uses = 0, Uses()
    while at < len(program.kernels):
        found = _band(program, at, uses)
        if found is not None:
            program = found
        at += 1
    return program


def _band(program: Loops, at: int, uses: Uses) -> Loops | None:
    """The program in which kernel `at`, of rows, is part of a band."""
    kernels = program.kernels
    counters, body = nested(kernels[at])
    if not counters or any(isinstance(s, Gemm) for s in statements(body)):
        return None
    rows = Rows(kernels[at], tuple(counters[:-1]), counters[-1], body)
    if not isinstance(rows.row.extent, int) or rows.row.extent < 2 * SMALL:
        return None
    makers = list(finding.makers(kernels, at, rows, uses))
    if not makers:
        return None
    own = {c.gemm.out.buffer for c in makers} | set(uses.of(rows.kernel)[1])
    parts: list[Rows | Call] = [*makers, rows, *finding.users(kernels, at, rows, own)]
    order = finding.together(kernels, parts, uses)
    if order is None:
        return None
    before, parts, after, first, last = order
    band = kept(kernels, parts, uses)
    if band is None:
        return None
    kernel, buffers = Writer(band).kernel()
    gone = set(band.places)
    return replace(
        program,
        buffers=[*[b for b in program.buffers if b not in gone], *buffers],
        kernels=[*kernels[:first], *before, kernel, *after, *kernels[last + 1 :]],
    )
