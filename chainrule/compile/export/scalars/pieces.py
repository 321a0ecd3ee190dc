"""Parts of a program of single numbers, each with the memory where it meets the others.

A graph reads its leaves and gives results and, backwards, the derivatives of the first one. An
update reads its leaves and gives results. Both are loops over families, or a tape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from chainrule.compile.export.scalars.copies import chosen_kernel, copied, whole
from chainrule.compile.export.scalars.segments import with_buffers
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.loops.statements import Kernel
from chainrule.compile.scalars.explanation import word_of
from chainrule.compile.scalars.reroll.family import CONSTANTS, LEAVES, Families
from chainrule.compile.scalars.reroll.fusion import Groups
from chainrule.compile.scalars.reroll.program import Rolled, Straight
from chainrule.compile.scalars.reroll.units import Recorded

F64 = np.dtype(np.float64)
Groupings = Mapping[int, Sequence[int]]
_FAMILY = re.compile(r"(?:pack_)?[fb](\d+)(?:_|$)")
_RESULT = re.compile(r"y\d+$")


@final
@dataclass(slots=True)
class Piece:
    """Kernels that read leaves from `x`, and `results`, each a buffer and a place in it; backwards
    the derivatives of the first one by what is in `x` go to `dx`. Tables that a call fills anew
    have their numbers within `ranges`."""

    x: Buffer
    forward: list[Kernel]
    results: list[tuple[Buffer, int]]
    backward: list[Kernel] = field(default_factory=list[Kernel])
    dx: Buffer | None = None
    ranges: dict[Buffer, tuple[int, int]] = field(default_factory=dict[Buffer, tuple[int, int]])


def rolled_graph(tape: Recorded, loops: Rolled, chosen: Buffer) -> Piece:
    """The graph that these loops compute; `chosen` are the indices of its gathers."""
    of = {id(a): i for i, a in enumerate(loops.arrays)}
    filled = {of[id(table)]: (at, choice) for table, at, choice in loops.choices}
    tables: list[Buffer] = []
    before: list[Kernel] = []
    ranges: dict[Buffer, tuple[int, int]] = {}
    for i, (b, a) in enumerate(zip(loops.code.objects, loops.arrays, strict=True)):
        if i in filled:
            at, choice = filled[i]
            tables.append(table := Buffer(f"chosen_{b.name}", b.dtype, b.shape, "scratch"))
            if len(at) < len(a):
                before.append(copied(table, whole(len(a)), _constant(b, a), whole(len(a))))
            before.append(chosen_kernel(table, at, choice, chosen))
            values: list[int] = choice.flat.tolist()
            values += a.tolist() if len(at) < len(a) else []
            ranges[table] = min(values), max(values)
        elif i >= FIRST_TABLES:
            tables.append(_constant(b, a))
    graph = graph_of(tape, loops, tables, ranges)
    graph.forward = [*before, *graph.forward]
    return graph


def graph_of(
    tape: Recorded, loops: Rolled, tables: Sequence[Buffer], ranges: dict[Buffer, tuple[int, int]]
) -> Piece:
    """The graph that loops compute which find constants, parameters, sizes and tables there."""
    objects = loops.code.objects
    named = zip(_NAMES, objects, strict=False)
    new = [Buffer(name, b.dtype, b.shape, "scratch") for name, b in named]
    seeds = objects[_SEEDS]
    new[_SEEDS] = Buffer("seeds", F64, seeds.shape, "constant", np.eye(1, *seeds.shape)[0])
    x, _, y, dx = new
    kernels = with_buffers(
        loops.code.loops.kernels, dict(zip(objects, [*new, *tables], strict=True))
    )
    last = max(i for i, k in enumerate(kernels) if _RESULT.match(k.name)) + 1
    kernels = described(kernels, loops.families, tape, {})
    results = [(y, i) for i in range(len(loops.families.results))]
    return Piece(x, kernels[:last], results, kernels[last:], dx, ranges)


_NAMES, _SEEDS = ("leaves", "seeds", "results", "slopes"), 1
"""What the memory of a rolled tape begins with, in the order of `reroll.program.written`."""
FIRST_TABLES = len(_NAMES)
"""Where the rest of it begins: constants, parameters, sizes, tables."""


def rolled_update(tape: Recorded, loops: Straight) -> Piece:
    """The update that these loops compute."""
    objects, made = loops.code.objects, loops.families
    new = [Buffer("leaves", F64, objects[0].shape, "scratch")]
    known: dict[int, tuple[Buffer, int]] = {}
    for b, a in zip(objects[1:], loops.arrays[1:], strict=True):
        if b.role == "input":
            new.append(_constant(b, a))
        else:
            new.append(Buffer(f"u{b.name[1:]}", b.dtype, b.shape, "scratch"))
            known[int(b.name[1:])] = new[-1], 0
    known |= {i: (new[0], at) for i, at in loops.homes.items()}
    known |= {LEAVES: (new[0], 0), CONSTANTS: (new[1], 0)}
    kernels = with_buffers(loops.code.loops.kernels, dict(zip(objects, new, strict=True)))
    results = [(known[s][0], known[s][1] + at) for s, at in made.results]
    groups = {group[0]: group for group in Groups(made).all}
    return Piece(new[0], described(kernels, made, tape, groups), results)


def _constant(b: Buffer, a: Any) -> Buffer:
    return Buffer(b.name, b.dtype, b.shape, "constant", a.copy())


# --- what kernels say of themselves --------------------------------------------------------------


def described(
    kernels: Sequence[Kernel], made: Families, tape: Recorded, groups: Groupings
) -> list[Kernel]:
    """The kernels, each with the op of its families and a line that asked for it; `groups` are the
    families that share a kernel, by the first of them."""
    return [Kernel(k.name, k.body, tuple(_about(k, made, groups, tape))) for k in kernels]


def _about(k: Kernel, made: Families, groups: Groupings, tape: Recorded) -> list[str]:
    """The comment above a kernel: what its families compute, and from which lines."""
    found = _FAMILY.match(k.name)
    if found is None:
        word = "zeros" if k.name.startswith("zero_") else "result" if k.name[0] == "y" else "start"
        return [f"{word} float64[]"]
    number = int(found[1])
    members = groups.get(number, [number]) if k.name[0] == "f" else [number]
    if k.name.startswith("pack_"):
        return []
    out: list[str] = []
    for i in members:
        f = made.families[i]
        sizes = ", ".join([str(a.extent) for a in f.nest.axes])
        lines: list[tuple[int, int]] = f.lines[:1].tolist()
        place = "".join([f"  {tape.files[file]}:{line}" for file, line in lines if file])
        out.append(f"{word_of(f)} float64[{sizes}]{place}")
    return list(dict.fromkeys(out))
