"""Two independent witnesses: the structure of the error, and the edit of the code that ends it.

Where the structure is plain it goes first: an edit can be right for another reason (`abs(w)` turns
a sign as well as a minus does). Where it says little, the edit says more.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.trees import tree_of

PLAIN = 8.8
"""Names of a smaller rank stay first."""
_STRUCTURAL = 7.5
"""The same beside an edit that is nothing but the slip undone."""
_TELLING = ("transposed", "wrong_axis")
_PARTIAL = ("stale", "one_sided", "size")
"""Names that say when it is wrong: one that both witnesses give says more."""
_OF_NUMBERS = ("dropped", "factor", "size", "wrong_value")
"""Names of edits, another index say, that tell less than that a gradient is dropped."""
_OF_PIECES = ("missing_term", "overwritten", "region", "dropped")
"""What it looks like where the last piece is left out, as an edit of their number tells."""
_OF_TERMS = ("missing_term", "overwritten")
"""What it looks like where a part of a sum is too small by a factor."""
_MOST_NAMES = 4


def refined(
    finding: Finding, codes: Sequence[str], correction: Correction, place: Place | None = None
) -> Finding:
    """The finding with the name that an edit gives, the edit as its correction, and its line.

    `codes`: mistakes that the edit undoes; `place`: where this finding's part of it stands.
    """
    named = finding
    seen = {n.code for n in finding.names}
    for code in dict.fromkeys(codes):
        if code == "writes" and "writes" not in seen:
            code = "stale"  # a value of its own was changed before it was read
        named = replace(named, names=_with(named.names, code, correction))
    stated = finding.correction if named.name.code == finding.name.code else None
    formula = "" if stated is None else stated.formula
    merged = replace(correction, formula=formula or correction.formula)
    return replace(named, correction=merged, place=place or correction.place or finding.place)


def stated(finding: Finding) -> Finding:
    """The finding with what the engine derives in its correction's words, if no edit is known."""
    given = finding.correction
    if given is None or given.after or not given.derived:
        return finding
    formula = f"{given.formula}; or let the engine derive it: {given.derived}"
    whole = formula if given.formula else f"let the engine derive it: {given.derived}"
    return replace(finding, correction=replace(given, formula=whole))


def _with(names: tuple[Name, ...], code: str, correction: Correction) -> tuple[Name, ...]:
    known = next((n for n in names if n.code == code), None)
    name = known or Name(code, _said(correction), rank=PLAIN)
    others = tuple([n for n in names if n.code not in (code, "unnamed")])
    plain = _STRUCTURAL if code in _TELLING else PLAIN
    second = known is not None and names[0].code in _PARTIAL and code not in _PARTIAL
    needless = code == "extra_term" and names[0].code == "wrong_axis"
    telling = code not in _OF_NUMBERS or (code == "wrong_value" and _hands_another(correction))
    lost = names[0].code == "dropped" and telling
    there = names[0].code in _OF_TERMS and code == "factor"  # a part is too small, and none away
    turned = code == "transposed" and names[0].code == "wrong_axis"  # nothing is reduced
    piece = code == "lengths" and names[0].code in _OF_PIECES
    piece = piece or (code == "region" and names[0].code == "overwritten")  # turns are left out
    plainly = not others or others[0].rank >= plain
    along = code == "wrong_axis" and names[0].code in _OF_TERMS  # what is summed so may be nothing
    let_in = code == "ignores_cotangent" and names[0].code == "not_linear"  # a term is constant
    told = {code, names[0].code} == set(_OF_TERMS)  # whether it was computed, the edit tells
    better = told or needless or lost or piece or there or turned or let_in or along
    first = plainly or names[0].code == code or better
    if known is not None and not (first or second):
        return names
    at = 0 if first or second else 1
    return (*others[:at], name, *others[at:])[:_MOST_NAMES]


def _hands_another(correction: Correction) -> bool:
    """Whether it hands another value to a call: the gradient was computed, and is nothing because
    of what it was computed of."""
    one, other = (_arguments(text) for text in (correction.before, correction.after))
    if len(one) != len(other):
        return False
    changed = [(a, b) for a, b in zip(one, other, strict=True) if ast.dump(a) != ast.dump(b)]
    return bool(changed) and all(isinstance(e, ast.Name) for pair in changed for e in pair)


def _arguments(text: str) -> list[ast.expr]:
    """What is handed to calls in some lines."""
    calls = [n for n in ast.walk(tree_of(text)) if isinstance(n, ast.Call)]
    return [a for n in calls for a in n.args]


def _said(correction: Correction) -> str:
    line = f"of line {correction.place.line} " if correction.place is not None else ""
    return f"a change {line}that undoes just this makes the gradient right"
