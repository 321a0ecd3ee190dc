"""Runs the corpus and counts: by face and by row of the list, the frozen third without details."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from . import scripts, slips
from .case import Case
from .judge import Outcome, judge

FACES = ("numpy", "own", "torch", "script")
COLUMNS = ("detected", "op", "line", "first", "three", "rechecked", "confirmed")


def planted(faces: Sequence[str] = FACES, v: str = "", name: str = "") -> list[Case]:
    """Cases of these faces, of one row of the list, with `name` in their id."""
    every = [case for face in faces for case in slips.cases(face)]
    return [c for c in every if (not v or c.slip.v == v) and name in c.id]


def run(cases: Iterable[Case], seconds: float = 1e9) -> Iterator[Outcome]:
    """Outcomes of as many cases as fit into the time, one by one."""
    end = time.perf_counter() + seconds
    for case in cases:
        if time.perf_counter() > end:
            break
        yield scripts.judge(case) if case.right.face == "script" else judge(case)


def row(title: str, outcomes: Sequence[Outcome]) -> str:
    """One line of the table: shares in percent."""
    n = len(outcomes)
    shares = [100 * sum([getattr(o, c) for o in outcomes]) / n for c in COLUMNS]
    cells = [f"{s:6.1f}" for s in shares]
    accused, broke = sum([o.accused for o in outcomes]), sum([bool(o.broke) for o in outcomes])
    return f"{title:<14}{n:>5} " + " ".join([f"{c:>9}" for c in cells]) + f"{accused:>8}{broke:>6}"


def table(outcomes: Sequence[Outcome]) -> str:
    """Rates in all, of the open and of the frozen part, by face and by row of the list."""
    head = f"{'':<14}{'n':>5} " + " ".join([f"{c:>9}" for c in COLUMNS]) + "  accused broke"
    groups: list[tuple[str, Callable[[Outcome], bool]]] = [
        ("all", lambda o: True),
        ("open", lambda o: not o.frozen),
        ("frozen", lambda o: o.frozen),
    ]
    groups += [(f, lambda o, f=f: o.face == f) for f in dict.fromkeys([o.face for o in outcomes])]
    rows = sorted({o.v for o in outcomes}, key=lambda v: (v[0], int(v[1:] or 99)))
    groups += [(v, lambda o, v=v: o.v == v) for v in rows]
    picked = [(title, [o for o in outcomes if keep(o)]) for title, keep in groups]
    nets = [o for o in outcomes if "/network/" in o.id or "/residual/" in o.id]
    told = f"victims listed in {sum([o.victims > 0 for o in nets])} of {len(nets)} networks"
    return "\n".join([head, *[row(title, some) for title, some in picked if some], told])


def failed(o: Outcome) -> bool:
    """Whether something of this outcome is to be looked at."""
    good = o.detected and o.op and o.line and o.first and o.rechecked and o.confirmed
    if o.face == "script":  # what is missing in a loop has no corrected code to run
        good = o.detected and o.op and o.line and o.first
    return not good or bool(o.broke) or o.accused > 0


def line(o: Outcome) -> str:
    """A failure in one line: what was missed, and what was said."""
    if o.broke:
        return f"{o.id}: BROKE {o.broke}"
    missed = [c for c in COLUMNS if not getattr(o, c)] if o.detected else ["detected"]
    extra = [f"accused {o.accused}"] if o.accused else []
    return f"{o.id}: not {', '.join([*missed, *extra])} -- {o.said}"
