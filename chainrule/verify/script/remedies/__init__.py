"""What a reader would change in a script for each kind of finding: proposals, the plainest first.

They are read off the text alone and promise nothing; each is tried by running the script with it
(`again`). A finding whose own correction is changed code has no need of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chainrule.verify.finding import Correction, Finding
from chainrule.verify.script.remedies.counts import over_all
from chainrule.verify.script.remedies.cuts import joined
from chainrule.verify.script.remedies.domains import domain
from chainrule.verify.script.remedies.hooks import apart, returned
from chainrule.verify.script.remedies.losses import along, expected
from chainrule.verify.script.remedies.memory import kept_apart, unshared
from chainrule.verify.script.remedies.order import (
    carried,
    changed_late,
    clipped_in_time,
    later,
    reset_gone,
    reset_late,
    reset_used,
    unscaled,
)
from chainrule.verify.script.remedies.parts import (
    added_later,
    bounded,
    built_late,
    given_all,
    given_other,
    registered,
)
from chainrule.verify.script.remedies.rewrites import (
    DRAWN,
    FINER,
    LEAKY,
    SAME_NUMBERS,
    SCALED,
    STEEP,
    STRAIGHT,
    SWITCHED_ON,
    USUAL_SCALE,
    WIDER,
    ZEROED,
)
from chainrule.verify.script.remedies.schedules import in_its_unit
from chainrule.verify.script.remedies.smooth import in_torch
from chainrule.verify.training.text.edits import Edit

_Remedy = Callable[[Finding], Iterator[Edit | None]]

REMEDIES: dict[str, tuple[_Remedy, ...]] = {
    "detached": (joined, in_torch),
    "first_bad": (domain, bounded),
    "vanishing": (*DRAWN, SCALED, STEEP),
    "exploding": (*DRAWN, SCALED),
    "dead": (ZEROED, LEAKY),
    "underflow": (SWITCHED_ON, WIDER, FINER),
    "scaler_skips": (USUAL_SCALE, domain, WIDER, FINER),
    "lost_updates": (FINER,),
    "clip_scaled": (unscaled,),
    "clip_idle": (clipped_in_time,),
    "scheduled_first": (later,),
    "unseen_change": (kept_apart, changed_late, unshared),
    "recomputed": (SAME_NUMBERS,),
    "not_optimized": (registered, built_late, added_later, given_all, given_other),
    "accumulation": (over_all,),
    "no_gradient": (STRAIGHT, given_other),
    "not_reset": (reset_used,),
    "reset_misplaced": (reset_gone, reset_late),
    "graph_kept": (carried,),
    "writes": (apart, returned),
    "partly_detached": (joined, in_torch),
    "wrong_domain": (expected,),
    "schedule_unit": (in_its_unit,),
    "wrong_axis": (along,),
}
"""By code of a finding."""

MOST = 8
"""Proposals for one finding."""


def remedies(finding: Finding) -> list[Correction]:
    """Corrections as changed code that may help, without repeats."""
    words = finding.correction.formula if finding.correction else ""
    found: dict[tuple[str, str], Correction] = {}
    for remedy in REMEDIES.get(finding.name.code, ()):
        for edit in remedy(finding):
            if edit is not None and edit.after and len(found) < MOST:
                change = Correction(words, edit.before, edit.after, edit.place)
                found.setdefault((edit.before, edit.after), change)
    return list(found.values())
