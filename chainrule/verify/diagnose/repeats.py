"""One line that runs many times, wrong each time, or all times but one: what loops do."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.diagnose.graph import MOST_EDGES, Paths, path
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.diagnose.missing import missing

_WEIGHTS = (0.0, -1.0, 2.0)


def uses(paths: Paths) -> list[Guess]:
    """One input used by the same line many times (a loop): only one use, or all but one, counts."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    for i, edge in enumerate(paths.flow.edges[:MOST_EDGES]):
        if edge.inputs == frozenset({paths.case.k}):
            groups.setdefault((edge.op, edge.argument, str(edge.place)), []).append(i)
    for group in groups.values():
        found = _one_of(paths, group) if len(group) > 1 else []
        if found:
            return found
    return []


def lines(paths: Paths) -> list[Guess]:
    """One line that runs many times (a loop), wrong in the same way each time."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    for i, edge in enumerate(paths.flow.edges[:MOST_EDGES]):
        if paths.case.k in edge.inputs and edge.place is not None:
            groups.setdefault((edge.op, edge.argument, str(edge.place)), []).append(i)
    for group in groups.values():
        for w in _WEIGHTS if len(group) > 1 else ():
            left = paths.left(dict.fromkeys(group, w))
            if left <= paths.case.slack(2.0):
                return _each_time(paths, group, w, left)
    return []


def _each_time(paths: Paths, group: Sequence[int], w: float, left: float) -> list[Guess]:
    edge = paths.flow.edges[group[0]]
    because = (
        f"A = N with the path through {path(edge)} weighted {w:g} each of the {len(group)} times "
        f"that it runs, leaving {left:.0e} of the difference"
    )
    if w == 0.0:
        return missing(paths.case, [edge], because, left)
    code, said = ("sign", "the wrong sign") if w < 0 else ("factor", "the factor 2")
    return [
        guess(
            code,
            3.4,
            because,
            f"what comes through {path(edge)} has {said} each time",
            left=left,
            formula=f"divide what undoes {path(edge)} by {w:g}",
            place=edge.place,
        )
    ]


def _one_of(paths: Paths, group: Sequence[int]) -> list[Guess]:
    for kept, which in ((group[0], "first"), (group[-1], "last")):
        left = paths.left({i: 0.0 for i in group if i != kept})
        if left <= paths.case.slack():
            edge, name = paths.flow.edges[kept], paths.case.input
            because = (
                f"{name} is used {len(group)} times by {path(edge)}; A is what comes from the "
                f"{which} use alone, leaving {left:.0e} of the difference"
            )
            return [
                guess(
                    "overwritten",
                    2.0,
                    because,
                    f"each use of {name} replaces the contribution of the one before",
                    left=left,
                    formula=f"add up {name}_bar over all {len(group)} uses (`+=`)",
                    place=edge.place,
                )
            ]
    return []
