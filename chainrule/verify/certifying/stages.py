"""A run in stages, parts before wholes: its findings put together.

One mistake, found at several places that share their code, is one finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chainrule.verify.certifying.certify import certify
from chainrule.verify.finding import LEVELS, Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.subject import Subject


def merged(findings: Sequence[Finding]) -> list[Finding]:
    """The findings, errors first; those of one backward, input and name as one that names all.

    Two layers of a class share its backward: what is wrong there is wrong in both.
    """
    groups: dict[object, list[Finding]] = {}
    for number, f in enumerate(findings):
        key = (f.place, f.input, f.kind, f.name.code) if f.place is not None else number
        groups.setdefault(key, []).append(f)
    out = [_one(group) for group in groups.values()]
    return sorted(out, key=lambda f: LEVELS.index(f.level))


def certified_after(
    what: str, subjects: Sequence[Subject], ledger: Ledger, **options: Any
) -> Sequence[Finding]:
    """The findings of a further stage of one run, whose `ledger` goes on.

    Every stage plants a wrong gradient; the ledger shows one that was caught, if any was.
    """
    before = ledger.planted
    findings = certify(what, subjects, ledger=ledger, **options).findings
    now = ledger.planted
    if before is not None and before.caught and (now is None or not now.caught):
        ledger.planted = before
    return findings


def _one(group: Sequence[Finding]) -> Finding:
    first = group[0]
    others = list(dict.fromkeys([f.subject for f in group[1:] if f.subject != first.subject]))
    if not others:
        return first
    victims = [v for f in group for v in f.victims if v not in (first.subject, *others)]
    said = f"the same code is as wrong in {', '.join(others)}"
    evidence = (*first.evidence, said)
    return replace(first, evidence=evidence, victims=tuple(dict.fromkeys(victims)))
