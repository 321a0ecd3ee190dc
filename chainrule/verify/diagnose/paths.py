"""Which path through the forward is undone wrongly: weights of single edges of its graph.

The gradient is affine in the weight w of an edge: N(w) = N + (w - 1) C, where C is what arrives
through that edge. If the backward is wrong in one place only, A = N(w) for the edge there, and w
says how: 0 forgets the path, -1 turns its sign, 2 counts it twice, any other is a factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import cast

import numpy as np

from chainrule.verify.diagnose import constants
from chainrule.verify.diagnose.case import Case
from chainrule.verify.diagnose.graph import (
    MOST_EDGES,
    Contribution,
    Paths,
    contributions,
    paths_of,
    telling,
)
from chainrule.verify.diagnose.graph import path as in_words
from chainrule.verify.diagnose.guess import Guess, guess
from chainrule.verify.diagnose.text.overwrites import Overwrite, overwrites
from chainrule.verify.subject import Array, Edge

_MANY = 12
"""So many different contributions at most are tried in pairs."""
_WEIGHTS = (0.0, -1.0, 2.0)


def through(case: Case) -> Iterator[Guess]:
    """Guesses for a path that is lost, turned, counted twice or weighted."""
    paths = paths_of(case)
    if paths is None:
        return
    parts = contributions(paths)
    single = _plainest(list(_single(paths, parts)))
    yield from single
    if not single:
        yield from uses(paths) or lines(paths) or _several(paths, parts)


def _single(paths: Paths, parts: Sequence[Contribution]) -> Iterator[Guess]:
    whole = float(np.linalg.norm(paths.true))
    for part in parts:
        square = float(part.arrives @ part.arrives)
        w = 1.0 + float(part.arrives @ paths.difference) / square
        rest = paths.difference - (w - 1.0) * part.arrives
        left = float(np.linalg.norm(rest) / np.linalg.norm(paths.difference))
        alone = float(np.linalg.norm(part.arrives - paths.true)) <= 1e-9 * whole
        if left <= paths.case.slack(w) and not alone:
            yield from _weighted(paths, part, w, left)


def _plainest(found: list[Guess]) -> list[Guess]:
    """Where forgetting a path explains all, so does turning the sign of half of it (one factor of a
    square): only the former is meant."""
    lost = [g for g in found if g.name.code in ("missing_term", "overwritten", "partly_detached")]
    return lost or found


def _weighted(paths: Paths, part: Contribution, w: float, left: float) -> Iterator[Guess]:
    case, edge = paths.case, telling(paths.flow, part)
    path = in_words(edge)
    because = f"A = N with what comes through it weighted {round(w, 9) + 0:.6g}, "
    because += f"leaving {left:.0e} of the difference"
    if abs(w) <= 10 * case.slack(w) + 1e-6:
        yield from missing(case, [edge], because, left)
    elif constants.near(w, -1.0):
        yield guess(
            "sign",
            3.3,
            because,
            f"what comes through {path} has the wrong sign",
            left=left,
            formula=f"turn the sign of the term that undoes {path}",
            place=edge.place,
        )
    else:
        yield from _by_factor(case, edge, w, because, left)


def _by_factor(case: Case, edge: Edge, w: float, because: str, left: float) -> Iterator[Guess]:
    at_hand = constants.symbols(case.subject, case.xs, case.ys, case.k)
    fitting = constants.recognise(w, at_hand)
    path = in_words(edge)
    texts = list(dict.fromkeys([f.text for f in fitting]))[:3]
    what = f"{texts[0]} = {w:.4g}" if texts else f"{w:.6g}"
    yield guess(
        "factor",
        (3.5 + fitting[0].plainness / 10) if texts else 11.0,
        because,
        f"what comes through {path} has the factor {what}",
        left=left,
        formula=f"divide the term that undoes {path} by {what}",
        place=edge.place,
        apart=f"sizes at which {' and '.join(texts)} differ" if len(texts) > 1 else "",
    )
    if constants.near(w, 2.0):
        yield guess(
            "extra_term",
            5.5,
            because,
            f"what comes through {path} is added twice",
            left=left,
            formula=f"add the term that undoes {path} once",
            place=edge.place,
            apart="whether the term stands there twice, or once with a 2",
        )


def _several(paths: Paths, parts: Sequence[Contribution]) -> Iterator[Guess]:
    """Two paths wrong at once, each lost, turned or doubled."""
    for a, b in combinations(list(parts)[:_MANY], 2):
        matrix = np.stack([a.arrives, b.arrives], axis=1)
        solution = cast("Array", np.linalg.lstsq(matrix, paths.difference, rcond=None)[0]) + 1.0
        near = [min(_WEIGHTS, key=lambda w, v=v: abs(w - v)) for v in solution.tolist()]
        weights = {a.edge: near[0], b.edge: near[1]}
        rest = paths.difference - matrix @ (solution - 1.0)
        if np.linalg.norm(rest) > 1e-3 * np.linalg.norm(paths.difference):
            continue
        left = paths.left(weights)
        if left <= paths.case.slack(2.0):
            yield from _pair(paths, [a, b], near, left)
            return


def _pair(
    paths: Paths, parts: Sequence[Contribution], weights: Sequence[float], left: float
) -> Iterator[Guess]:
    edges = [telling(paths.flow, p) for p in parts]
    said = " and ".join([f"{in_words(e)} by {w:g}" for e, w in zip(edges, weights, strict=True)])
    because = f"A = N with the paths weighted: {said}, leaving {left:.0e} of the difference"
    if all(w == 0.0 for w in weights):
        yield from missing(paths.case, edges, because, left)
        return
    codes = {0.0: "missing_term", -1.0: "sign", 2.0: "factor"}
    for code in dict.fromkeys([codes[w] for w in weights]):
        yield guess(
            code,
            8.0,
            because,
            f"two paths are wrong: {said}",
            left=left,
            formula=f"undo both with weight 1: {' and '.join([in_words(e) for e in edges])}",
            place=edges[0].place,
        )


# One line that runs many times, wrong each time, or all times but one: what loops do.


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
        f"A = N with the path through {in_words(edge)} weighted {w:g} each of the {len(group)} "
        f"times that it runs, leaving {left:.0e} of the difference"
    )
    if w == 0.0:
        return missing(paths.case, [edge], because, left)
    code, said = ("sign", "the wrong sign") if w < 0 else ("factor", "the factor 2")
    return [
        guess(
            code,
            3.4,
            because,
            f"what comes through {in_words(edge)} has {said} each time",
            left=left,
            formula=f"divide what undoes {in_words(edge)} by {w:g}",
            place=edge.place,
        )
    ]


def _one_of(paths: Paths, group: Sequence[int]) -> list[Guess]:
    for kept, which in ((group[0], "first"), (group[-1], "last")):
        left = paths.left({i: 0.0 for i in group if i != kept})
        if left <= paths.case.slack():
            edge, name = paths.flow.edges[kept], paths.case.input
            because = (
                f"{name} is used {len(group)} times by {in_words(edge)}; A is what comes from the "
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


# Names for a path through which nothing comes back.


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
