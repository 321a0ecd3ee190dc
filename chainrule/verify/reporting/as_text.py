"""A report in words, line by line. Each line is pieces of text with a style that `rich` knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np

from chainrule.verify.finding import Correction, Finding, Heat
from chainrule.verify.ledger import TRAINING, Ledger
from chainrule.verify.reporting.words import trial_outcome
from chainrule.verify.subject import Array

Line = list[tuple[str, str]]

WIDTH = 100
"""Columns that a line of words fills at most; code is not broken."""
LABEL = 13
"""Columns of the labels on the left."""
CELLS = 12
"""Rows and columns of a picture of a Jacobian at most."""
SHADES = " ░▒▓█"

_BADGE = {
    "error": ("WRONG", "bold red"),
    "warning": ("LOOK", "bold yellow"),
    "note": ("note", "dim"),
}


def plain(text: Sequence[Line]) -> str:
    """Without styles."""
    return "\n".join(["".join([words for words, _ in line]).rstrip() for line in text])


def lines(what: str, findings: Sequence[Finding], ledger: Ledger) -> list[Line]:
    """The whole report."""
    return [*_headline(what, findings, ledger), *_bodies(findings), *_ledger(ledger)]


def _headline(what: str, findings: Sequence[Finding], ledger: Ledger) -> Iterator[Line]:
    wrong = [f for f in findings if f.level != "note"]
    if wrong:
        said = "1 finding" if len(wrong) == 1 else f"{len(wrong)} findings"
        yield [(f"verify {what}: ", "bold"), (said, "bold red")]
    elif ledger.checked:
        said = " and ".join(_counts(ledger))
        yield [(f"verify {what}: ", "bold"), (f"{said}, nothing wrong", "green")]
    else:
        yield [(f"verify {what}: ", "bold"), ("nothing could be checked", "bold yellow")]


def _counts(ledger: Ledger) -> Iterator[str]:
    """How many gradients, and how many other things, were looked at."""
    loops = sum([c.kind == TRAINING for c in ledger.checked])
    gradients = len(ledger.checked) - loops
    if gradients:
        yield f"{gradients} gradients certified" if gradients > 1 else "gradient certified"
    if loops:
        yield f"{loops} check{'s' if loops > 1 else ''} of the training loop"


def _bodies(findings: Sequence[Finding]) -> Iterator[Line]:
    """The lines of all findings; of those that the same change ends, all is said of the first."""
    shown: set[tuple[str, str, str]] = set()
    for finding in findings:
        c = finding.correction
        code = (str(c.place), c.before, c.after) if c is not None else ("", "", "")
        yield []
        yield from _title(finding)
        if c is not None and c.after and code in shown:
            yield from _error(finding)
            yield from _labelled("correction", f"the change above, {c.place}")
            yield from _tried(finding, c)
            yield from _victims(finding)
            continue
        shown.add(code)
        yield from _why(finding)
        if c is not None:
            yield from _labelled("correction", c.formula)
            yield from _changed(c)
            yield from _tried(finding, c)
        yield from _others(finding)
        yield from _victims(finding)
        yield from _table(finding.table)
        if finding.heat and finding.level == "error":
            yield from _pictures(finding.heat)


def _title(finding: Finding) -> Iterator[Line]:
    badge, style = _BADGE[finding.level]
    of = f", gradient of {finding.input}" if finding.input else ""
    yield [
        (f"{badge:<6} ", style),
        (finding.title, "bold"),
        (f"  in {finding.subject}{of}", ""),
        (f"  ({finding.kind})" if finding.kind else "", "dim"),
    ]
    if finding.place:
        around = f"  in {finding.place.function}" if finding.place.function else ""
        yield [(" " * 7, ""), (str(finding.place), "cyan"), (around, "dim")]
        if finding.place.text:
            yield [(" " * 11 + finding.place.text, "")]


def _error(finding: Finding) -> Iterator[Line]:
    if finding.error is not None:
        allowed = (
            f"; rounding explains {finding.tolerance:.1e}" if finding.tolerance is not None else ""
        )
        yield from _labelled("how wrong", f"relative error {finding.error:.3g}{allowed}")


def _why(finding: Finding) -> Iterator[Line]:
    yield from _error(finding)
    yield from _labelled("what it is", finding.name.mistake.means)
    said = "; ".join([s for s in (finding.name.detail, finding.name.because) if s])
    yield from _labelled("how we know", said)
    for sentence in finding.evidence:
        if sentence != finding.name.because:
            yield from _labelled("", sentence)


def _tried(finding: Finding, correction: Correction) -> Iterator[Line]:
    """What came of the change. Advice about a training loop changes no gradient that could be
    measured again."""
    if correction.rechecked:
        yield [(" " * (LABEL + 2), ""), (trial_outcome(finding), "green")]
    else:
        yield from _labelled("", trial_outcome(finding))


def _changed(correction: Correction) -> Iterator[Line]:
    if correction.place and (correction.before or correction.after):
        yield from _labelled("", str(correction.place))
    for sign, style, code in (("-", "red", correction.before), ("+", "green", correction.after)):
        for line in code.splitlines():
            yield [(" " * (LABEL + 2) + sign + " ", style), (line, style)]


def _others(finding: Finding) -> Iterator[Line]:
    for name in finding.names[1:]:
        said = "; ".join([s for s in (name.detail, name.because, name.apart) if s])
        yield from _labelled("or", f"{name.mistake.title}: {said}")


def _victims(finding: Finding) -> Iterator[Line]:
    if finding.victims:
        yield from _labelled("victims", "wrong because of it: " + ", ".join(finding.victims))


def _labelled(label: str, text: str) -> Iterator[Line]:
    """Words after a label, broken at the width; nothing without words."""
    for i, part in enumerate(wrap(text, WIDTH - LABEL - 2)):
        yield [(f"  {label if i == 0 else '':<{LABEL}}", "dim"), (part, "")]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    if not rows:
        return
    wide = [max([len(row[i]) for row in rows]) for i in range(len(rows[0]))]
    for n, (first, *others) in enumerate(rows):
        cells = [c.rjust(w) for c, w in zip(others, wide[1:], strict=True)]
        yield [("    " + "  ".join([first.ljust(wide[0]), *cells]), "bold" if n == 0 else "")]


def _pictures(heat: Heat) -> Iterator[Line]:
    """Both Jacobians and their difference side by side, as shades."""
    columns: list[list[str]] = []
    for name, matrix, peak in three(heat):
        column = [name, *_shaded(matrix, peak), f"max {_peak(matrix):.3g}"]
        wide = max([len(row) for row in column])
        columns.append([row.ljust(wide) for row in column])
    rows = ["    " + "   ".join(row) for row in zip(*columns, strict=True)]
    for i, row in enumerate(rows):
        yield [(row, "dim" if i in (0, len(rows) - 1) else "")]


def three(heat: Heat) -> list[tuple[str, Array, float]]:
    """What pictures show: title, matrix, and the size that is drawn strongest.

    Both Jacobians have one scale, so that a wrong factor shows; their difference has its own.
    """
    peak = max(_peak(heat.analytic), _peak(heat.numeric))
    difference = heat.analytic - heat.numeric
    return [
        ("backward says", heat.analytic, peak),
        ("differences say", heat.numeric, peak),
        ("disagreement", difference, _peak(difference)),
    ]


def _peak(matrix: Array) -> float:
    finite = np.abs(matrix)[np.isfinite(matrix)]
    return float(finite.max()) if finite.size else 0.0


def _shaded(matrix: Array, peak: float) -> list[str]:
    """Two columns a cell, so that cells look square; a larger matrix is shown by its blocks."""
    return [
        "".join([_shade(cell, peak or 1.0) * 2 for cell in row]) for row in blocks(matrix, CELLS)
    ]


def blocks(matrix: Array, most: int) -> list[list[complex]]:
    """The matrix by at most `most` rows and columns: of each block the element furthest from 0."""
    if not matrix.size:
        return []
    rows = np.array_split(matrix, min(most, matrix.shape[0]), axis=0)
    cells = [np.array_split(row, min(most, matrix.shape[1]), axis=1) for row in rows]
    return [[_furthest(cell) for cell in row] for row in cells]


def _furthest(cell: Array) -> complex:
    bad = cell[~np.isfinite(cell)]
    return (bad[0] if bad.size else cell.flat[np.abs(cell).argmax()]).item()


def _shade(cell: complex, peak: float) -> str:
    if not np.isfinite(cell):
        return "!"
    return SHADES[int(np.ceil(min(1.0, abs(cell) / peak) * (len(SHADES) - 1)))]


def _ledger(ledger: Ledger) -> Iterator[Line]:
    yield []
    things = "1 thing" if len(ledger.checked) == 1 else f"{len(ledger.checked)} things"
    done = f"{things}, {_evaluations(ledger)}, {ledger.seconds:.2f} s"
    yield from _labelled("checked", done)
    for why, names in _grouped(ledger):
        yield from _labelled("skipped", f"{', '.join(names)}: {why}")
    if ledger.planted:
        caught = (
            f"caught, named '{ledger.planted.named}'" if ledger.planted.caught else "NOT caught"
        )
        yield from _labelled("planted", f"{ledger.planted.what}: {caught}")


def _evaluations(ledger: Ledger) -> str:
    return f"{ledger.evaluations} evaluation{'' if ledger.evaluations == 1 else 's'}"


def _grouped(ledger: Ledger) -> list[tuple[str, list[str]]]:
    """What was skipped, by reason."""
    by: dict[str, list[str]] = {}
    for skipped in ledger.skipped:
        if skipped.subject not in by.setdefault(skipped.why, []):
            by[skipped.why].append(skipped.subject)
    return list(by.items())
