"""From subjects to a report: measure each, name what is wrong, correct it, and say what was done.

Whatever fails in here is our failure, not the user's: it becomes a line of the ledger.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from chainrule.verify.certifying.memory_bounds import check_views
from chainrule.verify.certifying.narrow_dtypes import narrow
from chainrule.verify.certifying.symmetric_inputs import by_halves
from chainrule.verify.diagnose import diagnose
from chainrule.verify.diagnose.edits import as_approximation, name_by_edit, stated
from chainrule.verify.diagnose.text.cuts import cut_at, decided_at
from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import LEVELS, Finding, Name
from chainrule.verify.ledger import Checked, Ledger, Skipped
from chainrule.verify.measure.examine import examine
from chainrule.verify.measure.plant import planted
from chainrule.verify.measure.run import PATIENCE
from chainrule.verify.repair import blamed, least, repair
from chainrule.verify.repair.digits import digits_lost
from chainrule.verify.reporting.report import Report
from chainrule.verify.stopwatch import Stopwatch
from chainrule.verify.subject import Subject, wanted

_T = TypeVar("_T")
_ANYWHERE = ("nan", "unnamed", "wrong_value", "region", "factor", "sign", "missing_term", "size")
"""Mistakes whose line their name does not tell."""
_CUT = ("detached", "partly_detached", "unnamed", "missing_term", "wrong_value", "stale")
"""What a cut of the graph explains."""
_CASES = ("region", "one_sided")


def certify(
    what: str,
    subjects: Iterable[Subject],
    *,
    upstream: Mapping[str, Sequence[str]] | None = None,
    ledger: Ledger | None = None,
) -> Report:
    """Examine every subject and report on all of them.

    `upstream`: for the name of a subject, the names of those whose gradients pass through it; they
    are named as victims where it is wrong. Interrupted (Ctrl-C), it reports on what it has seen.

    Findings come errors first, then in the order of `subjects`: what should be read first is given
    first. What has no backward of its own is looked at last, and not at all once a part is wrong.
    """
    run = _Run(ledger if ledger is not None else Ledger(), upstream or {})
    wholes = list[tuple[int, Subject]]()
    try:
        for i, subject in enumerate(map(by_halves, subjects)):
            if subject.backward_place is None:
                wholes.append((i, subject))
            else:
                run.certify(i, subject)
        for i, subject in _inner_first(wholes):
            run.certify_whole(i, subject)
        run.plant()
    except KeyboardInterrupt:
        run.ledger.skipped.append(Skipped(what, "interrupted before everything had been seen"))
    return Report(what, _in_order(run), run.ledger)


@dataclass(frozen=True, eq=False)
class _Result:
    """A subject that was looked at, and what was found in it."""

    at: int
    """Which of the subjects it is."""
    subject: Subject
    findings: tuple[Finding, ...]
    judged: bool
    """Whether a gradient was held against differences: one of a step function is made up."""


@dataclass(eq=False)
class _Run:
    """One run: what has been seen so far."""

    ledger: Ledger
    upstream: Mapping[str, Sequence[str]]
    results: list[_Result] = field(default_factory=list[_Result])
    spoiled: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """What was not looked at because a part of it is wrong, in the same way."""

    def certify_whole(self, at: int, subject: Subject) -> None:
        """The same, unless something that is wrong already makes this wrong as well."""
        wrong = [r.subject for r in self.results if any(map(_spreads, r.findings))]
        if not _is_excused(subject, wrong):
            self.certify(at, subject)
            return
        culprit = next((s.name for s in wrong if _part_of(s, subject)), wrong[0].name)
        why = f"{culprit} is wrong: look again once that is right"
        self.ledger.skipped.append(Skipped(subject.name, why))
        if any(_part_of(s, subject) for s in wrong):
            self.spoiled.append((at, subject.name))

    def certify(self, at: int, subject: Subject) -> None:
        """Measure, name, correct; note in the ledger."""
        written = self.guarded(subject, "reading", lambda: subject.functions) or []
        with check_views(written):
            self._certify(at, subject)

    def _certify(self, at: int, subject: Subject) -> None:
        """Measure a subject, name and correct what is wrong, and note all of it."""
        watch = Stopwatch()
        evidence = self.guarded(subject, "measuring", lambda: examine(subject))
        if evidence is None:
            return
        found = self.guarded(subject, "naming", lambda: diagnose(evidence)) or []
        corrected = [self.corrected(evidence, finding, watch) for finding in found]
        if not evidence.wrong:
            few = self.guarded(subject, "looking at its digits", lambda: narrow(evidence))
            corrected += [few] if few is not None else []
        seconds = watch.passed
        shown = [self.with_victims(f) for f in corrected]
        judged = bool(evidence.trials and _judged_inputs(evidence))
        self.results.append(_Result(at, subject, tuple(shown), judged))
        self.note(evidence, seconds)

    def corrected(self, evidence: Evidence, finding: Finding, watch: Stopwatch) -> Finding:
        """The finding with changed code, if there is code that can be changed and is right then,
        and the time is not up for it."""
        if finding.level == "note":
            return finding
        subject, edited = evidence.subject, None
        if not watch.is_over(PATIENCE):
            edited = self.guarded(subject, "correcting", lambda: _with_edit(evidence, finding))
        else:
            why = f"{subject.name} has taken more than {PATIENCE:.0f} s so far"
            self.ledger.skipped.append(Skipped(f"correcting the gradient of {finding.input}", why))
        return stated(self.cut(subject, as_approximation(evidence, edited or finding)))

    def cut(self, subject: Subject, finding: Finding) -> Finding:
        """The finding at the line where the graph is cut, if there is one such line in what has no
        backward of its own, or in the parts that it is made of."""
        if finding.name.code not in _CUT or subject.backward_place is not None:
            return finding
        parts = [p for r in self.results for p in (r.subject.place, r.subject.backward_place)]
        place = cut_at([finding.place, *parts])
        if place is None:
            lines = subject.cuts([x.value for x in subject.inputs])
            if len(lines) != 1:
                return finding
            place = lines[0]
        because = f"nobody wrote this derivative, and the graph is cut at {place}"
        others = tuple([n for n in finding.names if n.code != "unnamed"])
        names = (
            others
            if "detached" in finding.name.code
            else (Name("partly_detached", because), *others)
        )
        return replace(finding, place=place, names=names)

    def with_victims(self, finding: Finding) -> Finding:
        """The finding with all that gets a wrong gradient because of it."""
        above = self.upstream.get(finding.subject, ())
        return finding if finding.level == "note" else replace(finding, victims=tuple(above))

    def note(self, evidence: Evidence, seconds: float) -> None:
        """Lines of the ledger for one subject."""
        subject = evidence.subject
        if evidence.trials or evidence.behaviours:
            how = _how(evidence)
            checked = Checked(subject.name, subject.kind, evidence.evaluations, seconds, how)
            self.ledger.checked.append(checked)
        for part, why in [*evidence.skipped, *_unsettled(evidence)]:
            name = f"{subject.name}: {part}" if part else subject.name
            self.ledger.skipped.append(Skipped(name, why))

    def plant(self) -> None:
        """One wrong gradient for this very run, in something that is right if there is one."""
        if self.ledger.planted is not None and self.ledger.planted.caught:
            return  # Another part of the same run has shown it already.
        looked_at = [r for r in self.results if r.judged]
        right = [r for r in looked_at if not r.findings]
        for result in [*right, *looked_at][:3]:
            subject = result.subject
            self.ledger.planted = self.guarded(subject, "planting", lambda s=subject: planted(s))
            if self.ledger.planted is not None and self.ledger.planted.caught:
                return

    def guarded(self, subject: Subject, doing: str, run: Callable[[], _T]) -> _T | None:
        """What `run` gives; None, and a line of the ledger, if it fails."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return run()
        except Exception as error:
            why = f"the verifier itself failed while {doing}: {type(error).__name__}: {error}"
            self.ledger.skipped.append(Skipped(subject.name, why))
            return None


def _spreads(finding: Finding) -> bool:
    """Whether what is around it is wrong as well: so it is where a cotangent is written into that
    another path needs, however right the gradient is that was made of it."""
    return finding.level == "error" or finding.name.code == "writes"


def _unsettled(evidence: Evidence) -> list[tuple[str, str]]:
    """Gradients about which nothing is certain."""
    settled = {t.input for t in evidence.trials if t.verdict != "unsure"}
    settled |= {b.input for b in evidence.behaviours if b.input is not None}
    inputs = evidence.subject.inputs
    if not evidence.trials:
        return []
    return [
        (f"gradient of {inputs[k].name}", "the numbers are too bad to tell at every point tried")
        for k in wanted(evidence.subject)
        if k not in settled
    ]


def _with_edit(evidence: Evidence, finding: Finding) -> Finding:
    """The finding with a correction that was tried; with the line that is to blame if there is
    none."""
    correction = repair(evidence, finding)
    if correction is None:
        blame = blamed(evidence) if finding.name.code in _ANYWHERE else None
        if finding.name.code == "precision":
            blame = digits_lost(evidence)
        if blame is None:
            return _at_decision(evidence.subject, finding)
        place, says = blame
        named = finding.names
        if finding.name.code == "unnamed":
            named = (Name("wrong_value", says, rank=finding.name.rank),)
        return replace(finding, place=place, names=named, evidence=(says, *finding.evidence))
    own = least(evidence, finding)
    if own is None:
        return name_by_edit(finding, (), correction, correction.place)
    place = finding.place if own.misplaced else own.correction.place
    said = own.correction.formula or correction.formula  # of the edit, if that gives the name
    return name_by_edit(finding, own.codes, replace(correction, formula=said), place)


def _at_decision(subject: Subject, finding: Finding) -> Finding:
    """The finding of a case that is not handled, where the backward tells cases apart."""
    place = decided_at([subject.backward_place]) if finding.name.code in _CASES else None
    return finding if place is None else replace(finding, place=place)


def _how(evidence: Evidence) -> str:
    points = list(dict.fromkeys([t.point for t in evidence.trials]))
    unsure = sum([t.verdict == "unsure" for t in evidence.trials])
    tail = f"; {unsure} of them unsure" if unsure else ""
    return f"{len(evidence.trials)} trials at {len(points)} points: {', '.join(points)}{tail}"


def _judged_inputs(evidence: Evidence) -> list[int]:
    """The inputs whose gradients were compared with differences."""
    made_up = {b.input for b in evidence.behaviours if b.code == "straight_through"}
    return [i for i in wanted(evidence.subject) if i not in made_up]


def _in_order(run: _Run) -> list[Finding]:
    """Errors first, then as the subjects came; what a culprit spoils is listed with it only."""
    results = sorted(run.results, key=lambda r: r.at)
    findings = [f for r in results for f in r.findings]
    findings.sort(key=lambda f: LEVELS.index(f.level))
    if run.spoiled:
        names = [*findings[0].victims, *[name for _, name in sorted(run.spoiled)]]
        findings[0] = replace(findings[0], victims=tuple(dict.fromkeys(names)))
    return findings


def _inner_first(wholes: list[tuple[int, Subject]]) -> list[tuple[int, Subject]]:
    """Parts before what contains them, else as they came."""
    return sorted(wholes, key=lambda w: -w[1].name.count(".") - w[1].name.count("["))


def _is_excused(whole: Subject, wrong: Sequence[Subject]) -> bool:
    """Whether something is wrong only because a part of it is.

    Who has a backward of its own answers for it. A whole whose derivative is put together from its
    parts' does not, once something with a backward of its own, or a part by name, is wrong.
    """
    return any(s.backward_place is not None or _part_of(s, whole) for s in wrong)


def _part_of(part: Subject, whole: Subject) -> bool:
    return part.name.startswith((whole.name + ".", whole.name + "["))
