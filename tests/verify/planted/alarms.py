"""Correct cases against the verifier: what it calls wrong is a false alarm."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import scripts
from .case import Right
from .correct import hand, own_functions, own_models, right, torch_functions, torch_models
from .correct.case import Correct
from .judge import LIMIT, TooLong, broken, limited


@dataclass(frozen=True)
class Verdict:
    """What the verifier made of a correct case."""

    id: str
    frozen: bool
    alarm: bool = False
    empty: bool = False
    """It looked at nothing, so that its silence says nothing."""
    seconds: float = 0.0
    said: str = ""
    broke: str = ""

    @property
    def group(self) -> str:
        """The first word of the id."""
        return self.id.split("/")[0]


def correct(name: str = "") -> list[Correct]:
    """All correct cases with `name` in their id."""
    every = [
        *[c for face in ("numpy", "own", "torch") for c in right.cases(face)],
        *[*hand.cases(), *own_functions.cases(), *torch_functions.cases()],
        *[*own_models.cases(), *torch_models.cases()],
    ]
    every += [Correct(r.name, lambda r=r: _script(r)) for r in scripts.rights()]
    return [c for c in every if name in c.id]


def _script(right: Right) -> Any:
    found, said = scripts.report(scripts.written(right.name, right.source))
    if found is None:
        raise RuntimeError(said)
    return found


def verdict(case: Correct) -> Verdict:
    """Verify one correct case."""
    start = time.process_time()
    try:
        with limited(LIMIT):
            report = case.make()
    except (Exception, TooLong) as error:
        took = time.process_time() - start
        return Verdict(case.id, case.frozen, seconds=took, broke=broken(error))
    bad = [f for f in report.findings if f.level != "note"]
    said = " | ".join(
        [
            f"{f.input or f.subject}: {f.level} {f.names[0].code} [{f.names[0].because[:90]}]"
            for f in bad
        ]
    )
    if not report.ledger.checked:
        said = "; ".join([s.why for s in report.ledger.skipped][:2]) or "nothing checked"
    took = time.process_time() - start
    return Verdict(case.id, case.frozen, not report.ok, not report.ledger.checked, took, said)


def run(cases: Iterable[Correct], seconds: float = 1e9) -> Iterator[Verdict]:
    """Verdicts on as many cases as fit into the time, one by one."""
    end = time.perf_counter() + seconds
    for case in cases:
        if time.perf_counter() > end:
            break
        yield verdict(case)


def failed(v: Verdict) -> bool:
    """Whether it is to be looked at."""
    nothing_there = "empty" in v.id  # arrays without elements: nothing can be checked
    return v.alarm or (v.empty and not nothing_there) or bool(v.broke)


def line(v: Verdict) -> str:
    """A failure in one line."""
    kind = "BROKE" if v.broke else "FALSE ALARM" if v.alarm else "NOTHING CHECKED"
    return f"{v.id}: {kind} {v.broke or v.said}"


def table(verdicts: Sequence[Verdict]) -> str:
    """Counts by group, and of the frozen third."""
    head = f"{'correct':<22}{'n':>6}{'alarms':>8}{'empty':>7}{'broke':>7}{'seconds':>9}"
    groups = {"all": list(verdicts), "frozen": [v for v in verdicts if v.frozen]}
    for v in verdicts:
        groups.setdefault(v.group, []).append(v)
    rows = [
        f"{name:<22}{len(some):>6}{sum([v.alarm for v in some]):>8}"
        f"{sum([v.empty for v in some]):>7}{sum([bool(v.broke) for v in some]):>7}"
        f"{sum([v.seconds for v in some]):>9.1f}"
        for name, some in groups.items()
        if some
    ]
    return "\n".join([head, *rows])
