"""Names for a path through which nothing comes back."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.graph import path as in_words
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.diagnose.source import Overwrite, overwrites
from chainrule.verify.subject import Edge


def missing(case: Case, edges: Sequence[Edge], because: str, left: float) -> list[Guess]:
    """Names for one path, or several, through which nothing comes back."""
    path = " and ".join(dict.fromkeys([in_words(e) for e in edges]))
    plural = "s" if len(edges) > 1 else ""
    written = overwrites(case.subject.source)
    formula = f"add what comes back through {path} to {case.input}_bar"
    detail = f"the path{plural} through {path} {'are' if plural else 'is'} missing"
    place = edges[0].place
    if case.subject.backward_place is None:
        because += "; nobody wrote this backward, so that the graph was cut there"
        formula = f"keep the graph on the path through {path}: no detach(), .data, numpy() on it"
        return [
            guess("partly_detached", 2.0, because, detail, left=left, formula=formula, place=place)
        ]
    term = guess(
        "missing_term",
        3.0,
        because,
        detail,
        left=left,
        formula=formula,
        place=place,
        apart="whether the term was computed and then replaced (`=`), or never computed",
    )
    over = guess(
        "overwritten",
        2.8 if written else 3.2,
        _with_line(because, written),
        f"what comes through {path} is lost",
        left=left,
        formula=formula + " (`+=`)",
        place=place,
        apart=term.name.apart,
    )
    return [term, over]


def _with_line(because: str, written: Sequence[Overwrite]) -> str:
    if not written:
        return because
    w = written[0]
    return (
        because + f"; `{w.name}` is assigned at line {w.line}, over what line {w.before} put there"
    )
