"""Slips and how to undo them: every rule proposes edits, whether they are right is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.rules import (
    atoms,
    axes,
    calls,
    cases,
    forward,
    indices,
    letting,
    memory,
    patterns,
    products,
    statements,
)
from chainrule.verify.repair.sparing import spared
from chainrule.verify.repair.values.scene import Scene

Rule: TypeAlias = Callable[[Scene], Iterator[Edit]]

RULES: tuple[Rule, ...] = (
    patterns.patterns,
    atoms.other_array,
    atoms.other_array_throughout,
    atoms.other_number,
    atoms.other_constant,
    atoms.other_size,
    atoms.other_order,
    atoms.unread,
    calls.without,
    calls.counterparts,
    calls.in_functions,
    products.other_products,
    products.einsum_letters,
    products.transposed,
    axes.other_axis,
    axes.reduced,
    axes.summed_within,
    axes.backwards,
    indices.other_turns,
    indices.other_index,
    cases.comparisons,
    cases.masks,
    cases.sigmoids,
    forward.as_in_forward,
    forward.with_operand,
    forward.number_of_forward,
    letting.let_in,
    statements.added,
    statements.left_out,
    statements.discarded,
    statements.scattered,
    statements.moved_out,
    memory.own_copy,
    memory.contiguous,
)
"""In no particular order: each edit says how likely it is."""


def edits(
    scene: Scene, codes: Sequence[str] | None = None, rules: Sequence[Rule] | None = None
) -> list[Edit]:
    """What rules propose, all if none are given, for mistakes of any name or some: each text once,
    likely ones first."""
    found = dict[tuple[int, int, str], Edit]()
    for rule in RULES if rules is None else rules:
        for e in spared(scene.failures, rule, scene):
            unasked = codes is not None and e.code not in codes
            if unasked or scene.draft.body[e.start : e.end] == e.text:
                continue
            key = (e.start, e.end, e.text)
            if key not in found or found[key].cost > e.cost:
                found[key] = e
    return sorted(found.values(), key=lambda e: (e.cost, len(e.text)))
