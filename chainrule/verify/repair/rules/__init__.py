"""Slips and how to undo them: every rule proposes edits, whether they are right is measured."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.failing_rules import spare_failures
from chainrule.verify.repair.rule_costs import EVERYWHERE
from chainrule.verify.repair.rules import (
    atoms,
    axes,
    bounds,
    calls,
    combined_values,
    forward,
    memory,
    patterns,
    siblings,
    statements,
)
from chainrule.verify.repair.values.scene import Scene
from chainrule.verify.repair.values.watch import is_count

_PLACES = 5
_NAME = re.compile(r"[\w.]+(\[\w+\])?")
"""What is put in several places at once: what has a name. Who computes more does so in one."""

Rule: TypeAlias = Callable[[Scene], Iterator[Edit]]

RULES: tuple[Rule, ...] = (
    patterns.patterns,
    # An atom by one of the same observed type.
    atoms.other_array,
    atoms.other_size,
    forward.number_of_forward,
    # A call wrapped, unwrapped, or for its counterpart.
    calls.unwrapped,
    calls.counterparts,
    # Siblings exchanged.
    siblings.other_order,
    siblings.other_products,
    siblings.as_elsewhere,
    # A value combined with an atom, or with what the forward has.
    combined_values.unread_values,
    combined_values.missing_cotangent,
    forward.as_in_forward,
    forward.as_differentiated,
    # Axes.
    axes.other_axis,
    axes.missing_reductions,
    axes.sums_within_terms,
    axes.transpositions,
    axes.einsum_letters,
    # Bounds.
    bounds.other_index,
    bounds.comparisons,
    # Statements: too many, with another sign.
    statements.assignment_signs,
    statements.statements_too_much,
    statements.equal_indices,
    # Copies, and layouts of memory.
    memory.copy_before_write,
)
"""In no particular order: each edit says how likely it is."""


def edits(
    scene: Scene, codes: Sequence[str] | None = None, rules: Sequence[Rule] | None = None
) -> list[Edit]:
    """What rules propose, all if none are given, for mistakes of any name or some: each text once,
    likely ones first."""
    found = dict[tuple[int, int, str], Edit]()
    for rule in RULES if rules is None else rules:
        for e in spare_failures(scene.failures, rule, scene):
            unasked = codes is not None and e.code not in codes
            if unasked or scene.draft.body[e.start : e.end] == e.text:
                continue
            key = (e.start, e.end, e.text)
            if key not in found or found[key].cost > e.cost:
                found[key] = e
    some = [*found.values(), *at_all_occurrences(scene, list(found.values()))]
    return sorted(some, key=lambda e: (e.cost, len(e.text)))


def at_all_occurrences(scene: Scene, found: Sequence[Edit]) -> Iterator[Edit]:
    """Each edit of a part that stands in several places, made in all places of one statement, and
    in all there are: `u * (1 - u)` to `s * (1 - s)`, or one wrong name in two lines."""
    spans = dict[str, dict[ast.AST, list[tuple[int, int]]]]()
    for node in scene.expressions:
        if scene.is_array(node) or is_count(scene.value(node)):
            around = spans.setdefault(scene.draft.src(node), {})
            around.setdefault(_statement(scene, node), []).append(scene.draft.span(node))
    done = set[tuple[tuple[tuple[int, int], ...], str]]()
    for e in [e for e in found if _NAME.fullmatch(e.text)]:
        around = spans.get(scene.draft.body[e.start : e.end], {})
        alone = [some for some in around.values() if (e.start, e.end) in some]
        every = [place for some in around.values() for place in some]
        for places, more in [*[(some, 0.0) for some in alone], (every, EVERYWHERE)]:
            key = (tuple(sorted(set(places))), e.text)
            if 1 < len(key[0]) <= _PLACES and key not in done:
                done.add(key)
                yield _join(scene, e, key[0], more)


def _statement(scene: Scene, node: ast.AST) -> ast.AST:
    while not isinstance(node, ast.stmt) and node in scene.draft.parents:
        node = scene.draft.parents[node]
    return node


def _join(scene: Scene, e: Edit, places: Sequence[tuple[int, int]], more: float) -> Edit:
    """The edit made in several places, which do not overlap."""
    body, text, at = scene.draft.body, "", places[0][0]
    for start, end in places:
        text += body[at:start] + e.text
        at = end
    says = f"{e.says}, in {len(places)} places"
    return Edit(places[0][0], at, text, e.code, e.cost + more, says, e.rule)
