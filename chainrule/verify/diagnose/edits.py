"""The mistake that an edit undoes names it: what was changed was run, and everything is right.

What the structure of the error says comes after it, and stands alone where no edit is known. Where
no edit is known and a gradient is right to some digits everywhere, it is an approximation: a solver
that stops at a tolerance, a table, a series that is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chainrule.verify.evidence import Evidence
from chainrule.verify.finding import Correction, Finding, Name
from chainrule.verify.place import Place
from chainrule.verify.tolerances import LOOSE

PLAIN = 8.8
"""The rank of a name that an edit gives; of those of the structure, plain ones are below it."""
_MEASURED = ("not_linear", "ignores_cotangent", "contiguity", "size", "stale")
"""Names of what a backward does for other cotangents, other layouts of them, and other sizes, and
after other calls."""
_MOST_NAMES = 4


def name_by_edit(
    finding: Finding, codes: Sequence[str], correction: Correction, place: Place | None = None
) -> Finding:
    """The finding with the name that an edit gives, the edit as its correction, and its line.

    `codes`: mistakes that the edit undoes; `place`: where this finding's part of it stands.
    """
    named = finding
    seen = {n.code for n in finding.names}
    for code in reversed(dict.fromkeys(codes)):
        if code == "writes" and "writes" not in seen:
            code = "stale"  # a value of its own was changed before it was read
        named = replace(named, names=_put_first(named.names, code, correction))
    stated = finding.correction if named.name.code == finding.name.code else None
    words = [correction.formula] if stated is None else [stated.formula, correction.formula]
    if stated is not None and not stated.rechecked:  # It was not tried as the edit was.
        words.reverse()
    formula = next((w for w in words if w), "")
    merged = replace(correction, formula=formula)
    return replace(named, correction=merged, place=place or correction.place or finding.place)


def stated(finding: Finding) -> Finding:
    """The finding with what the engine derives in its correction's words, if no edit is known."""
    given = finding.correction
    if given is None or given.after or not given.derived:
        return finding
    formula = f"{given.formula}; or let the engine derive it: {given.derived}"
    whole = formula if given.formula else f"let the engine derive it: {given.derived}"
    return replace(finding, correction=replace(given, formula=whole))


def _put_first(names: tuple[Name, ...], code: str, correction: Correction) -> tuple[Name, ...]:
    """The name of what was changed goes first: it was seen to be what is wrong. Only what the
    backward does at other cotangents and sizes, and after other calls, was seen as well."""
    known = next((n for n in names if n.code == code), None)
    name = known or Name(code, _edit_in_words(correction), rank=PLAIN)
    others = [n for n in names if n.code not in (code, "unnamed")]
    first = [n for n in others[:1] if n.code in _MEASURED]
    return (*first, name, *others[len(first) :])[:_MOST_NAMES]


def _edit_in_words(correction: Correction) -> str:
    line = f"of line {correction.place.line} " if correction.place is not None else ""
    return f"a change {line}that undoes just this makes the gradient right"


_VAGUE = ("unnamed", "wrong_value", "region")
"""What a finding is called if nothing is known but that it is wrong."""


def as_approximation(evidence: Evidence, finding: Finding) -> Finding:
    """The finding, as a note if its gradient is so nearly right at every point that was tried."""
    names = [x.name for x in evidence.subject.inputs]
    if finding.input not in names or finding.name.code not in (*_VAGUE, "factor"):
        return finding
    k = names.index(finding.input)
    errors = [t.error for t in evidence.trials if t.input == k and t.verdict == "wrong"]
    told = [b for b in evidence.behaviours if b.input in (k, None)]
    c = finding.correction
    is_changed = c is not None and c.rechecked and bool(c.after)
    if not errors or max(errors) > LOOSE or told or is_changed:
        return finding
    says = f"off by at most {max(errors):.1g} of its size at every point tried, by no known mistake"
    return replace(finding, level="note", names=(Name("approximate", says),), correction=None)
