"""Repair: the user's backward, changed until it is right.

A wrong backward is a program with an oracle: the independent derivative. So it is repaired like
any program that has tests: small edits of its own text, each the inverse of a slip that people
make, are run on the captured values and at other points. An edit after which everything agrees is
the correction; the slip that it undoes is the name of the mistake, found without any rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from time import process_time
from weakref import WeakKeyDictionary

from chainrule.verify.diagnose.edits import PLAIN
from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import Correction, Finding
from chainrule.verify.place import Place
from chainrule.verify.repair.checks import Repaired, passing
from chainrule.verify.repair.code.draft import Draft, UnreadableError
from chainrule.verify.repair.expected.suspects import suspect
from chainrule.verify.repair.helpers import helpers
from chainrule.verify.repair.problem import Problem, problem
from chainrule.verify.repair.rule_costs import OF_FORWARD, OF_VALUE, PLAIN_COST, SURE_COST
from chainrule.verify.repair.search import keeping, versions
from chainrule.verify.repair.values.lab import laboratory
from chainrule.verify.subject import Source, extent

SECONDS = 3.2
"""Processor time for one subject's search in its backward, without the last check."""
_RUNS, _LONGEST = 500, 8.0
"""What is added to it: the time of so many runs of the backward, so that one with loops has as many
edits tried as another; never more than so many seconds."""
_MORE = 0.8
"""The same for each function that it calls, unless that computes values as well as gradients, and
for the forward."""
_OF_FORMULAS = ("transposed", "sign", "factor", "missing_term", "wrong_axis")
"""Mistakes that are made where a gradient is computed, not where something is kept."""


def repair(evidence: Evidence, finding: Finding | None = None) -> Correction | None:
    """The change of the user's code that puts right what was found, run and checked; None if there
    is no source, or no edit was found that does.

    Where all can be put right at once, this is given for each finding: it can be put in as it is.
    """
    found = repairs(evidence, finding)
    names = [x.name for x in evidence.subject.inputs]
    if finding is not None and finding.input in names:
        k = names.index(finding.input)
        found = sorted([r for r in found if k in r.inputs], key=lambda r: len(r.inputs))
    if not found:
        return None
    return next((r for r in repairs(evidence) if r.whole and r in found), found[0]).correction


_known: WeakKeyDictionary[Evidence, tuple[Repaired, ...]] = WeakKeyDictionary()


def least(evidence: Evidence, finding: Finding) -> Repaired | None:
    """Of a correction in several steps, those only that a finding's input needs: what its mistake
    is called, and where it stands."""
    names = [x.name for x in evidence.subject.inputs]
    found = list(repairs(evidence))
    if finding.input in names:
        k = names.index(finding.input)
        found = [r for r in found if k in r.inputs]
        found.sort(key=lambda r: (r.misplaced, len(r.codes)))
    return found[0] if found else None


def repairs(evidence: Evidence, finding: Finding | None = None) -> tuple[Repaired, ...]:
    """Corrections that passed the full check: that of everything first, if there is one, then those
    of single inputs. One search serves all findings of an evidence; the names of the first finding
    say what is tried first."""
    if evidence not in _known:
        _known[evidence] = tuple(_repairs(evidence, finding))
    return _known[evidence]


def blamed(evidence: Evidence) -> tuple[Place, str] | None:
    """Where no repair was found: the line at which the values of the backward go wrong, as far as
    the forward tells, and what is wrong with them; None if it does not tell."""
    posed = problem(evidence)
    if posed is None or not posed.posed:
        return None
    first = posed.targets[0]
    small = min(posed.targets, key=lambda t: sum([prod(extent(x)) for x in t.xs]))
    try:
        draft = Draft.of(posed.source)
    except UnreadableError:
        return None
    labs = [laboratory(posed, draft, t) for t in dict.fromkeys([small, first])]
    lab = next((b for b in labs if b is not None and len(b.wrong) == len(posed.wrong)), labs[-1])
    wrong = None if lab is None else suspect(lab)
    if lab is None or wrong is None:
        return None
    node, says = wrong
    return lab.scene.draft.place(node), says


def _repairs(evidence: Evidence, finding: Finding | None) -> Iterator[Repaired]:
    """Corrections of the backward, and of the forward where that may be to blame."""
    posed = problem(evidence)
    if posed is None:
        return
    codes = [b.code for b in evidence.behaviours]
    codes += [n.code for n in finding.names] if finding is not None else []
    kept = "stale" in codes
    found = _in_forward(posed, codes) if kept else []
    if not any(r.whole and r.cost <= PLAIN_COST and "stale" in r.codes for r in found):
        found += _in_backward(posed, codes)
    if not kept and not any(r.whole and r.cost <= PLAIN_COST for r in found):
        found += [replace(r, cost=r.cost + OF_FORWARD) for r in _in_forward(posed, codes)]
    named = [finding.name.code] if finding is not None and finding.name.rank < PLAIN else []
    for rule, why in posed.failures.items():
        evidence.skipped.append(("some corrections", f"`{rule}` failed: {why}"))
    for why in posed.untouched[:1]:
        evidence.skipped.append(("corrections", why))
    found = [replace(r, misplaced=_is_misplaced(posed, r, named)) for r in found]
    yield from sorted(found, key=lambda r: (not r.whole, r.misplaced, r.cost))


def _is_misplaced(posed: Problem, found: Repaired, named: list[str]) -> bool:
    """Whether it changes what the forward keeps, for a mistake that is one of the formula: right as
    that is, the backward is where it was made. `named`: what its structure says that it is."""
    forward, place = posed.source.separate_forward, found.correction.place
    if forward is None or place is None or place.function != forward.function.__qualname__:
        return False
    return any(code in _OF_FORMULAS for code in (*found.codes, *named))


def _in_backward(posed: Problem, codes: list[str]) -> list[Repaired]:
    """Repairs of the backward, or of what it calls."""
    whole = SECONDS + min(_RUNS * _run(posed), _LONGEST)
    posed = replace(posed, stop=process_time() + whole)
    more = _MORE if posed.source.separate_forward is not None else whole
    found = passing(posed, lambda first: versions(posed, first, codes))
    if not any(r.whole and r.cost <= SURE_COST for r in found):
        for helper in helpers(posed):
            of_value = OF_VALUE * helper.of_value
            enough = PLAIN_COST + of_value if of_value else SURE_COST
            if any(r.whole and r.cost <= enough for r in found):
                break
            made = _in_helper(replace(posed, stop=process_time() + more), helper, codes)
            found += [replace(r, cost=r.cost + of_value) for r in made]
    return found


def _run(posed: Problem) -> float:
    """Seconds of a run of the backward at the first target, the forward included."""
    start = process_time()
    posed.run(posed.subject, posed.targets[0])
    return process_time() - start


def _in_forward(posed: Problem, codes: list[str]) -> list[Repaired]:
    """Repairs of what the forward keeps for the backward."""
    if posed.source.forward is None:
        return []
    changed = replace(posed, source=posed.source.forward, stop=process_time() + _MORE)
    return passing(changed, lambda first: keeping(changed, first, codes))


def _in_helper(posed: Problem, helper: Source, codes: list[str]) -> list[Repaired]:
    """Repairs of a function that the backward calls."""
    changed = replace(posed, source=helper)
    return [r for r in passing(changed, lambda first: versions(changed, first, codes)) if r.whole]
