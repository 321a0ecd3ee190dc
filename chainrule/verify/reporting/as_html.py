"""A report as one HTML page that needs nothing else: no font, no server. Scripts only add to it.

The Jacobians are drawn as SVG: blue above zero, orange below, the stronger the further from it; a
cell tells its number when pointed at. A notebook shows the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from chainrule.page.html import code, page, table, to_html
from chainrule.page.palette import NOT_FINITE, diverging
from chainrule.page.svg import Looks, document
from chainrule.verify.finding import Correction, Finding, Heat
from chainrule.verify.ledger import Ledger
from chainrule.verify.reporting.as_text import LABEL, blocks, lines, plain, three
from chainrule.verify.reporting.words import trial_outcome

CELLS = 48
"""Rows and columns of a picture at most; larger Jacobians are shown by blocks."""
SIDE = 264
"""Pixels of a picture's longer side."""

_BADGES = {"error": ("bad", "WRONG"), "warning": ("look", "LOOK"), "note": ("soft", "note")}
"""By level: the class of its colour, and the word."""
_CELL = Looks("chainrule-matrix", {"frame": {"fill": "none", "stroke": "rim"}})


def report_html(what: str, ok: bool, findings: Sequence[Finding], ledger: Ledger) -> str:
    """The whole page, with a player for each finding whose gradient can be played."""
    head = plain(lines(what, findings, ledger)[:1])
    parts = report_sections(what, ok, findings, ledger)
    traces = {i: t for i, f in enumerate(findings) if (t := _trace_of(f)) is not None}
    if not traces:
        return page(head, parts)
    studio: Any = import_module("chainrule.studio.report")  # which stands above this file
    first = 1  # the heading
    for i in sorted(traces, reverse=True):
        parts.insert(first + i + 1, studio.player_id(i))
    return str(studio.report_page(head, parts, traces))


def _trace_of(finding: Finding) -> Any:
    from chainrule.traces.findings import trace_of_finding  # loaded where something is wrong

    return None if finding.heat is None else trace_of_finding(finding)


def report_sections(what: str, ok: bool, findings: Sequence[Finding], ledger: Ledger) -> list[str]:
    """What stands on the page, piece by piece."""
    head = plain(lines(what, findings, ledger)[:1])
    return [
        f'<h1 class="{"good" if ok else "bad"}">{to_html(head)}</h1>',
        *map(_section, findings),
        *([_legend(findings)] if findings else []),
        _ledger(ledger),
    ]


def _section(finding: Finding) -> str:
    style, word = _BADGES[finding.level]
    of = f", gradient of <code>{escape(finding.input)}</code>" if finding.input else ""
    rows = "".join([f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in _rows(finding)])
    pictures = "".join(_pictures(finding.heat)) if finding.heat else ""
    return (
        f'<section><h2><span class="{style} strong">{word}</span> {to_html(finding.title)} in '
        f"{to_html(finding.subject)}{of}</h2>{_place(finding)}<dl>{rows}</dl>"
        f"{table(finding.table, f'numbers of {finding.title}')}{pictures}</section>"
    )


def _place(finding: Finding) -> str:
    if finding.place is None:
        return f'<p class="soft">{escape(finding.kind)}</p>'
    where = f"{finding.place}  {finding.place.function}".strip()
    quoted = code([("", finding.place.text)]) if finding.place.text else ""
    return f'<p class="soft">{escape(where)} ({escape(finding.kind)})</p>{quoted}'


def _rows(finding: Finding) -> Iterator[tuple[str, str]]:
    """What is said of a finding, label and markup."""
    if finding.error is not None:
        explained = "" if finding.tolerance is None else f"; rounding: {finding.tolerance:.1e}"
        yield "how wrong", escape(f"relative error {finding.error:.3g}{explained}")
    yield "what it is", to_html(finding.name.mistake.means)
    known = [finding.name.detail, finding.name.because, *finding.evidence]
    yield "how we know", "<br>".join([to_html(s) for s in dict.fromkeys(known) if s])
    if finding.correction:
        yield "correction", _correction(finding, finding.correction)
    for name in finding.names[1:]:
        said = "; ".join([s for s in (name.detail, name.because, name.apart) if s])
        yield "or", to_html(f"{name.mistake.title}: {said}")
    if finding.victims:
        yield "victims", to_html("wrong because of it: " + ", ".join(finding.victims))


def _correction(finding: Finding, correction: Correction) -> str:
    changed = [
        (style, f"{sign} {line}")
        for sign, style, text in (("-", "bad", correction.before), ("+", "good", correction.after))
        for line in text.splitlines()
    ]
    place = f'<p class="soft">{escape(str(correction.place))}</p>' if correction.place else ""
    shown = f"{place}{code(changed)}" if changed else ""
    return f"{to_html(correction.formula)}{shown}<div>{escape(trial_outcome(finding))}</div>"


def _legend(findings: Sequence[Finding]) -> str:
    """What the colours of this page stand for."""
    rows = [
        ('<span class="bad strong">WRONG</span>', "a gradient is wrong, or a step trains wrongly"),
        ('<span class="look strong">LOOK</span>', "probably not what was meant"),
        ('<span class="soft strong">note</span>', "good to know, but not wrong"),
        ('<code class="bad">-</code>', "a line of code as it is"),
        ('<code class="good">+</code>', "the same line, corrected"),
    ]
    if any(finding.heat for finding in findings):
        keys = [(1.0, True, "-"), (0.3, True, ""), (0.0, True, "0"), (0.3, False, ""),
                (1.0, False, "+")]  # fmt: skip
        scale = "".join([_key(diverging(depth, below=below)) for depth, below, _ in keys])
        rows += [
            (scale, "a number of a Jacobian: blue above 0, white at 0, orange below 0; the "
                    "stronger, the further from 0, up to the strongest number under the picture"),
            (_key(NOT_FINITE), "NaN or infinite"),
        ]  # fmt: skip
    body = "".join([f"<dt>{key}</dt><dd>{escape(text)}</dd>" for key, text in rows])
    return f"<section><h2>colours</h2><dl>{body}</dl></section>"


def _key(colour: str) -> str:
    return f'<span class="key" style="background: {colour}"></span>'


def _pictures(heat: Heat) -> Iterator[str]:
    sizes = f"y {heat.y_shape} by x {heat.x_shape}"
    for title, matrix, peak in three(heat):
        caption = f"{title}, {sizes}; strongest {peak:.3g}"
        picture = _svg(blocks(matrix, CELLS), matrix.shape, peak or 1.0, caption)
        yield f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"


def _svg(cells: list[list[complex]], shape: tuple[int, ...], peak: float, title: str) -> str:
    """One square for each cell, or block of cells."""
    if not cells:
        return ""
    high, wide = len(cells), len(cells[0])
    side = SIDE / max(high, wide)
    rows, columns = _starts(shape[0], high), _starts(shape[1], wide)
    squares = [
        f'<rect x="{j * side:.2f}" y="{i * side:.2f}" width="{side:.2f}" height="{side:.2f}" '
        f'fill="{_colour(cell, peak)}"><title>{rows[i]}, {columns[j]}: {cell:.6g}</title></rect>'
        for i, row in enumerate(cells)
        for j, cell in enumerate(row)
    ]
    width, height = f"{wide * side:.0f}", f"{high * side:.0f}"
    frame = f'<rect {_CELL.attributes("frame")} width="{width}" height="{height}"/>'
    body = ['<g shape-rendering="crispEdges">', *squares, "</g>", frame]
    return document(body, _CELL, width, height, title)


def _starts(size: int, parts: int) -> list[str]:
    """The indices that each part covers, to read."""
    edges = np.cumsum([0, *[len(p) for p in np.array_split(np.arange(size), parts)]]).tolist()
    return [str(a) if b - a == 1 else f"{a}..{b - 1}" for a, b in pairwise(edges)]


def _colour(cell: complex, peak: float) -> str:
    if not np.isfinite(cell):
        return NOT_FINITE
    # Half the way is gone at a tenth of the peak: small elements show.
    return diverging(min(1.0, abs(cell) / peak) ** 0.3, below=cell.real < 0)


def _ledger(ledger: Ledger) -> str:
    """The same words as in the terminal."""
    text = [line for line in plain(lines("", [], ledger)[1:]).splitlines() if line.strip()]
    rows: list[tuple[str, str]] = []
    for line in text:
        label, said = line[2 : LABEL + 2].strip(), line[LABEL + 2 :].strip()
        if label or not rows:
            rows.append((label, said))
        else:  # a sentence that the terminal broke
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {said}")
    body = "".join([f"<dt>{escape(k)}</dt><dd>{to_html(v)}</dd>" for k, v in rows])
    return f"<section><h2>ledger</h2><dl>{body}</dl></section>"
