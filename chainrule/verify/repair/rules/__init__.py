"""Slips and how to undo them: every rule proposes edits, whether they are right is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from chainrule.verify.repair.draft import Edit
from chainrule.verify.repair.rules import (
    alignment,
    axes,
    cases,
    counts,
    elements,
    factors,
    gathered,
    letting,
    literals,
    memory,
    names,
    numbers,
    places,
    products,
    recomputed,
    records,
    said,
    segments,
    solving,
    statements,
    sums,
    turns,
    unread,
)
from chainrule.verify.repair.scene import Scene
from chainrule.verify.repair.sparing import spared

Rule: TypeAlias = Callable[[Scene], Iterator[Edit]]

RULES: tuple[Rule, ...] = (
    products.other_products,
    products.einsum_letters,
    products.transposed,
    products.outer_products,
    products.channels,
    products.permuted,
    products.lined_up,
    products.taken_apart,
    solving.other_system,
    axes.other_axis,
    axes.other_axis_throughout,
    axes.parts_exchanged,
    axes.keeping,
    sums.sum_or_mean,
    sums.reduced,
    sums.summed_within,
    sums.one_of_all,
    sums.total_of_the_other,
    sums.not_reduced,
    alignment.spread,
    alignment.placed,
    alignment.backwards,
    names.other_order,
    names.other_name,
    names.other_cotangent,
    names.other_name_throughout,
    numbers.other_index,
    numbers.other_number,
    numbers.of_another_owner,
    numbers.exchanged_numbers,
    numbers.other_flag,
    numbers.guarded_index,
    names.exchanged,
    records.other_record,
    said.as_in_forward,
    said.with_operand,
    said.as_called_in_forward,
    elements.moved,
    elements.both_ends,
    elements.shifted,
    elements.both_sides,
    elements.off_by_one,
    elements.one_more_each,
    elements.other_turns,
    counts.rounded_up,
    counts.to_the_end,
    elements.turned,
    places.exchanged_slices,
    places.exchanged_values,
    places.undone,
    places.of_the_other,
    places.of_the_others,
    factors.without,
    factors.inverse,
    factors.exponents,
    factors.constants,
    literals.number_of_forward,
    literals.with_addend,
    literals.number_added,
    literals.cotangent_for_one,
    letting.let_in,
    letting.offsets,
    cases.comparisons,
    cases.apart,
    segments.by_segment,
    cases.clipped,
    cases.larger_bounds,
    cases.masks,
    cases.sigmoids,
    factors.conjugated,
    factors.functions,
    recomputed.signs,
    recomputed.operands,
    recomputed.functions,
    factors.sizes,
    factors.shapes,
    factors.bounded,
    statements.added,
    statements.thrown_away,
    statements.changed_copy,
    statements.left_out,
    turns.counted,
    turns.hoisted,
    turns.summed,
    statements.unused,
    unread.unread,
    turns.handed_on,
    turns.carried,
    turns.collected,
    statements.whole,
    statements.scattered,
    gathered.taken_back,
    statements.added_up,
    memory.own_copy,
    memory.contiguous,
    memory.flattened,
)
"""In no particular order: each edit says how likely it is."""
OF_FORWARDS: tuple[Rule, ...] = tuple([r for r in RULES if r is not recomputed.operands])
"""Those for what a forward keeps: it computes everything for the first time."""


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
