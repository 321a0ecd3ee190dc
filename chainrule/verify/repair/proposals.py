"""What is proposed for a version, how unlikely each edit is, and in which order they are tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from time import process_time
from typing import TypeAlias

from chainrule.verify.repair.affine.new_gradients import new_gradients
from chainrule.verify.repair.affine.terms import missing_terms
from chainrule.verify.repair.affine.weights import weights
from chainrule.verify.repair.budget import BATCH, SHARE_OF_QUICK
from chainrule.verify.repair.code.draft import Edit
from chainrule.verify.repair.expected.expected_values import Doubt, doubt_at, doubts
from chainrule.verify.repair.expected.missing_terms import lacking_terms
from chainrule.verify.repair.failing_rules import spare_failures
from chainrule.verify.repair.rule_costs import HANDED_ON, NAMED, NO_COTANGENT, QUICK, UNREAD
from chainrule.verify.repair.rules import edits
from chainrule.verify.repair.values.lab import Lab
from chainrule.verify.repair.values.scene import Scene


@dataclass(frozen=True, eq=False)
class Proposals:
    """A version under observation, and what is quick to propose for it."""

    lab: Lab
    codes: Sequence[str]

    @cached_property
    def doubts(self) -> list[Doubt]:
        """Where the mistake can hardly be."""
        return doubts(self.lab)

    @cached_property
    def proposed(self) -> list[Edit]:
        """What rules propose, and weights, likely ones first; what is tried is taken off."""
        failures = self.lab.problem.failures
        found = list(spare_failures(failures, new_gradients, self.lab))
        found += [] if found else spare_failures(failures, weights, self.lab)
        return self.weighted([*found, *edits(self.lab.scene)])

    def weighted(self, found: list[Edit]) -> list[Edit]:
        """Edits with what they cost here, likely ones first."""
        scene = self.lab.scene
        found = [e for e in found if not scene.is_of_value(e.start)]
        return sorted(
            [_with_final_cost(scene, e, self.codes, self.doubts) for e in found], key=cost_of
        )

    def batches(self, cost: float, share: float) -> Iterator[list[Edit]]:
        """Proposed edits up to a cost, some at a time, for a share of the time that is left."""
        proposed = self.proposed  # Working them out is no part of the share.
        now = process_time()
        until = now + share * (self.lab.problem.stop - now)
        while proposed and proposed[0].cost <= cost and process_time() <= until:
            batch = [e for e in proposed[:BATCH] if e.cost <= cost]
            yield batch
            del proposed[: len(batch)]  # Costlier ones are for a later stage.


def cost_of(edit: Edit) -> float:
    """How unlikely an edit is: what edits are sorted by."""
    return edit.cost


def _with_final_cost(
    scene: Scene, edit: Edit, codes: Sequence[str], places: Sequence[Doubt] = ()
) -> Edit:
    """The edit with its final cost: less if it undoes a mistake that was named, or reads a name
    that nothing reads; more the longer it is, where it does not stand where a value is made, and
    where the mistake cannot be."""
    named = scene.draft.body[edit.start : edit.end]
    if edit.code == "factor" and "size" in codes and named.isdigit():
        edit = replace(edit, code="size")  # Right as captured: the number is a size of that.
    words = set(re.findall(r"[A-Za-z_]\w*", edit.text))
    cost = edit.cost - NAMED * (edit.code in codes) - UNREAD * bool(words & scene.unread)
    cost += doubt_at(places, edit.start, edit.end)
    cost += NO_COTANGENT * (
        edit.code == "missing_term" and not scene.flows_at(edit.start, edit.end)
    )
    cost += 0.01 * max(0, len(edit.text) - (edit.end - edit.start))
    if (edit.start, edit.end) in scene.names_returned:
        cost += HANDED_ON
    elif (edit.start, edit.end) in scene.read_once and named in scene.flowing:
        cost += HANDED_ON / edit.text.count(named) if named in edit.text else HANDED_ON
    return replace(edit, cost=cost)


def _quick(proposals: Proposals) -> Iterator[list[Edit]]:
    yield from proposals.batches(QUICK, SHARE_OF_QUICK)


def _terms_missing(proposals: Proposals) -> Iterator[list[Edit]]:
    failures = proposals.lab.problem.failures
    yield proposals.weighted(list(spare_failures(failures, lacking_terms, proposals.lab)))
    for found in spare_failures(failures, missing_terms, proposals.lab, proposals.doubts):
        yield proposals.weighted(found)


def _rest(proposals: Proposals) -> Iterator[list[Edit]]:
    yield from proposals.batches(inf, 1.0)


Stage: TypeAlias = Callable[[Proposals], Iterator[list[Edit]]]
"""Edits in the order in which they are worked out, so that time that is up loses the last only."""
STAGES: tuple[Stage, ...] = (_quick, _terms_missing, _rest)
"""What is likely, what takes longer to work out, and the rest."""
