"""What a reader would change in a script for each kind of finding: proposals, the plainest first.

They are read off the text alone and promise nothing; each is tried by running the script with it
(`trial_runs`). A finding whose own correction is changed code has no need of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chainrule.verify.finding import Correction, Finding
from chainrule.verify.script.remedies.cuts import rejoin, write_in_torch
from chainrule.verify.script.remedies.losses import along, expected, keep_in_domain, one_mean
from chainrule.verify.script.remedies.memory import copy_kept, copy_shared, read_only, return_change
from chainrule.verify.script.remedies.order import (
    change_after_backward,
    clip_after_backward,
    detach_carried,
    drop_reset,
    in_its_unit,
    reset_after_step,
    reset_after_use,
    schedule_after_step,
    unscale_before_clip,
)
from chainrule.verify.script.remedies.parts import (
    add_group,
    bound_gradients,
    build_after_parts,
    give_all,
    give_other_model,
    register_parts,
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
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Source

_Remedy = Callable[[Source, Finding], Iterator[Edit | None]]

REMEDIES: dict[str, tuple[_Remedy, ...]] = {
    "detached": (rejoin, write_in_torch),
    "first_bad": (keep_in_domain, bound_gradients),
    "vanishing": (*DRAWN, SCALED, STEEP),
    "exploding": (*DRAWN, SCALED),
    "dead": (ZEROED, LEAKY),
    "underflow": (SWITCHED_ON, WIDER, FINER),
    "scaler_skips": (USUAL_SCALE, keep_in_domain, WIDER, FINER),
    "lost_updates": (FINER,),
    "clip_scaled": (unscale_before_clip,),
    "clip_idle": (clip_after_backward,),
    "scheduled_first": (schedule_after_step,),
    "unseen_change": (copy_kept, change_after_backward, copy_shared),
    "recomputed": (SAME_NUMBERS,),
    "not_optimized": (register_parts, build_after_parts, add_group, give_all, give_other_model),
    "accumulation": (one_mean,),
    "no_gradient": (STRAIGHT, give_other_model),
    "not_reset": (reset_after_use,),
    "reset_misplaced": (drop_reset, reset_after_step),
    "graph_kept": (detach_carried,),
    "writes": (read_only, return_change),
    "partly_detached": (rejoin, write_in_torch),
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
    if (source := Source.at(finding.place)) is None:
        return []
    for remedy in REMEDIES.get(finding.name.code, ()):
        for edit in remedy(source, finding):
            if edit is not None and edit.after and len(found) < MOST:
                change = Correction(words, edit.before, edit.after, edit.place)
                found.setdefault((edit.before, edit.after), change)
    return list(found.values())
