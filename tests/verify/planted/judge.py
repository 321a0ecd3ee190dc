"""What a report says of a planted mistake, held against what is known of it.

A correction counts as confirmed only if the lines that it gives, put into the file, make the
backward agree with differences of the forward: the verifier's own word is a column of its own.
"""

from __future__ import annotations

import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from . import duds, independent, modules, tensors
from .case import Case, Right
from .points import arguments

LIMIT = 30.0
"""Seconds of this process's own time after which a case is given up."""


class TooLong(BaseException):
    """A case ran into its limit. Not an Exception, so that nobody catches it on the way."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after so many seconds."""

    def stop(*_: Any) -> None:
        raise TooLong(f"not done after {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@dataclass(frozen=True)
class Outcome:
    """How the verifier did on one case; `said` is what it answered."""

    id: str
    face: str
    v: str
    frozen: bool
    detected: bool = False
    op: bool = False
    """The first finding stands in the op that holds the mistake."""
    line: bool = False
    """It or its correction stands on a line of the mistake (or the next before or after), or its
    name says that line; in a script, where a missing line has many places, within three."""
    first: bool = False
    three: bool = False
    rechecked: bool = False
    confirmed: bool = False
    accused: int = 0
    """Errors that it found where nothing is wrong."""
    victims: int = 0
    """What the first finding lists as wrong only because of it."""
    seconds: float = 0.0
    said: str = ""
    text: str = ""
    """The whole report."""
    broke: str = ""
    """The verifier's own failure."""


def report_of(right: Right, made: ModuleType, args: tuple[Any, ...]) -> Any:
    """The verifier's report on code of a face, through its public functions."""
    from chainrule import verify

    call = right.call
    if call.how == "model":
        net, batch, _ = tensors.model(right.face, made, call, args)
        return verify.model(net, tuple([b.detach() for b in batch]), loss=made.loss)
    if call.how == "double":
        apply = getattr(made, call.forward).apply
        return verify.check(apply, *[tensors.to_torch(a) for a in args], order=2)
    if right.face == "numpy":
        if call.backward:
            return verify.pair(getattr(made, call.forward), getattr(made, call.backward), *args)
        one, own = modules.layer(made, call, args)
        return verify.pair(one, *own)
    make = tensors.to_torch if right.face == "torch" else tensors.to_own
    return verify.function(getattr(made, call.forward), *[make(a) for a in args])


def broken(error: BaseException) -> str:
    """An exception in one line, with where it came from."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''} ({where})"


def judge(case: Case, make: Callable[[ModuleType], Any] | None = None) -> Outcome:
    """Verify a spoiled op and hold the report against the case."""
    made = modules.of_case(case)
    start = time.process_time()
    try:
        with limited(LIMIT):
            low = "float32" if case.slip.wrong == "float32" else "float64"
            args = arguments(case.right.op, case.at)
            args = tuple([independent.cast(a, low) for a in args])
            report = make(made) if make else report_of(case.right, made, args)
    except (Exception, TooLong) as error:
        return _outcome(case, time.process_time() - start, broke=broken(error))
    finally:
        modules.forget(made)
    if failures := [s.why for s in report.ledger.skipped if " failed: " in s.why]:
        return _outcome(case, time.process_time() - start, broke=failures[0])
    return hold(case, report, Path(str(made.__file__)), time.process_time() - start)


def _outcome(case: Case, seconds: float, **known: Any) -> Outcome:
    return Outcome(case.id, case.right.face, case.slip.v, case.frozen, seconds=seconds, **known)


def hold(case: Case, report: Any, file: Path, seconds: float) -> Outcome:
    """The report against what is known of the case, whose code stands in `file`."""
    found = [f for f in report.findings if f.level != "note" or _told(f, case)]
    if not found:
        notes = ", ".join([f.names[0].code for f in report.findings])
        skipped = "; ".join([s.why for s in report.ledger.skipped][:3])
        said = f"nothing (notes: {notes or 'none'}; skipped: {skipped or 'nothing'})"
        return _outcome(case, seconds, said=said, text=str(report))
    codes = [n.code for f in found for n in f.names][:3]
    best = found[0]
    around = 3 if case.right.face == "script" else 1
    lines = case.lines[0] - around, case.lines[1] + around
    return _outcome(
        case,
        seconds,
        detected=True,
        op=_within(best.place, file, case.culprit),
        line=any(_within(p, file, lines) for p in _places(best)) or _says_line(best, lines),
        first=best.names[0].code in case.slip.codes,
        three=any(code in case.slip.codes for code in codes),
        rechecked=any(f.correction is not None and f.correction.rechecked for f in found),
        confirmed=confirmed(case, found, file),
        accused=sum([f.level == "error" and not _near(f, case, file) for f in found]),
        victims=len(best.victims),
        said=" | ".join([_said(f) for f in found]),
        text=str(report),
    )


def _told(note: Any, case: Case) -> bool:
    """A detached path may be meant, so that naming it in a note is all that can be asked for."""
    return case.slip.v == "V11" and note.names[0].code in case.slip.codes


def _places(finding: Any) -> list[Any]:
    """Lines that a finding shows: its own, and that of its correction."""
    return [finding.place, finding.correction.place if finding.correction else None]


def _says_line(finding: Any, lines: tuple[int, int]) -> bool:
    """Whether its first name says the line: "the backward reads `y` as line 13 left it"."""
    words = f"{finding.names[0].because} {finding.names[0].detail}"
    return any(lines[0] <= int(n) <= lines[1] for n in re.findall(r"\bline (\d+)", words))


def _near(finding: Any, case: Case, file: Path) -> bool:
    """Whether a finding stands where the mistake is, or where no line can be known."""
    return finding.place is None or _within(finding.place, file, case.culprit)


def _within(place: Any, file: Path, lines: tuple[int, int]) -> bool:
    if place is None or Path(place.file).name != file.name:
        return False
    return lines[0] <= place.line <= lines[1]


def _said(finding: Any) -> str:
    names = ">".join([n.code for n in finding.names])
    where = f"{finding.place.line}" if finding.place else "no line"
    detail = finding.names[0].detail or finding.names[0].because
    return f"{finding.input or finding.subject}: {names} @{where} [{detail[:70]}]"


def changed(source: str, corrections: list[Any]) -> str:
    """The source with the lines of the corrections in place of what they replace."""
    lines = source.splitlines()
    for c in corrections:
        old, new = c.before.splitlines(), c.after.splitlines()
        wanted = [t.strip() for t in old]
        starts = [
            i
            for i in range(len(lines) - len(old) + 1)
            if [t.strip() for t in lines[i : i + len(old)]] == wanted
        ]
        if not starts:
            continue
        at = min(starts, key=lambda i: abs(i + 1 - (c.place.line if c.place else 0)))
        deeper = _indent(lines[at]) - _indent(old[0])
        lines[at : at + len(old)] = [" " * deeper + t if deeper > 0 else t for t in new]
    return "\n".join(lines) + "\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def confirmed(case: Case, found: list[Any], file: Path) -> bool:
    """Whether the corrected file is right, by differences."""
    given = [f.correction for f in found if f.correction and f.correction.after]
    if not given or case.right.face not in ("numpy", "torch", "own"):
        return False
    try:
        made = modules.module(file.stem, changed(case.source, given))
        run = independent.runner(case.right.face, made, case.right.call)
        errors = independent.errors(run, duds.witness(case), case.slip.wrong)
    except Exception:
        return False
    return max(errors.values(), default=1.0) <= duds.WRONG
