"""What a reader would change in a script for each kind of finding: proposals, the plainest first.

They are read off the text alone and promise nothing; each is tried by running the script with it
(`trial_runs`). A finding whose own correction is changed code has no need of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from chainrule.verify.finding import Correction, Finding
from chainrule.verify.script.remedies import cuts, losses, memory, order, parts
from chainrule.verify.script.remedies import rewrites as to
from chainrule.verify.training.text.edits import Edit
from chainrule.verify.training.text.source import Source

_Remedy = Callable[[Source, Finding], Iterator[Edit | None]]

REMEDIES: dict[str, tuple[_Remedy, ...]] = {
    "detached": (cuts.rejoin, cuts.write_in_torch),
    "partly_detached": (cuts.rejoin, cuts.write_in_torch),
    "clip_scaled": (order.unscale_before_clip,),
    "unseen_change": (memory.copy_kept, memory.copy_shared),
    "recomputed": (to.SAME_NUMBERS,),
    "not_optimized": (
        parts.register_parts,
        parts.build_after_parts,
        parts.add_group,
        parts.give_all,
        parts.give_other_model,
    ),
    "wrong_domain": (losses.expected,),
    "schedule_unit": (order.in_its_unit,),
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
