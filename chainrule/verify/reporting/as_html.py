"""A report as one HTML page that needs nothing else: no script, no font, no server.

The Jacobians are drawn as SVG: blue below zero, red above, the stronger the further from it; a cell
tells its number when pointed at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from chainrule.verify.finding import Correction, Finding, Heat
from chainrule.verify.ledger import Ledger
from chainrule.verify.reporting.as_text import LABEL, blocks, lines, plain, three
from chainrule.verify.reporting.words import tried

CELLS = 48
"""Rows and columns of a picture at most; larger Jacobians are shown by blocks."""
SIDE = 264
"""Pixels of a picture's longer side."""

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --soft: #667085; --line: #d9dde4; --page: #fff;
  --card: #f7f8fa; --bad: #b42318; --look: #b54708; --good: #067647; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ec; --soft: #98a2b3; --line: #333a46;
  --page: #14171c; --card: #1c2027; --bad: #f97066; --look: #fdb022; --good: #47cd89; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 1000px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 0; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 1rem 1.2rem; margin: 1rem 0; }
.error h2::before { content: "WRONG "; color: var(--bad); }
.warning h2::before { content: "LOOK "; color: var(--look); }
.note h2::before { content: "note "; color: var(--soft); }
dl { display: grid; grid-template-columns: 8rem 1fr; gap: .2rem .8rem; margin: .8rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; }
pre, code, .place { font: 13px/1.45 ui-monospace, monospace; } pre { overflow-x: auto; margin: 0; }
.place { color: var(--soft); } .bad { color: var(--bad); } .good { color: var(--good); }
figure { display: inline-block; margin: 1rem 1rem 0 0; vertical-align: top; }
figcaption { color: var(--soft); font-size: 13px; } svg { border: 1px solid var(--line); }
table { border-collapse: collapse; margin-top: .8rem; font-size: 13px; }
td, th { padding: .1rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; }
"""


def report_html(what: str, ok: bool, findings: Sequence[Finding], ledger: Ledger) -> str:
    """The whole page."""
    head = plain(lines(what, findings, ledger)[:1])
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(head)}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{_STYLE}</style></head><body>",
        f'<h1 class="{"good" if ok else "bad"}">{escape(head)}</h1>',
        *[_section(f) for f in findings],
        _ledger(ledger),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _section(finding: Finding) -> str:
    of = f", gradient of <code>{escape(finding.input)}</code>" if finding.input else ""
    rows = "".join([f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in _rows(finding)])
    pictures = "".join(_pictures(finding.heat)) if finding.heat else ""
    return (
        f'<section class="{finding.level}"><h2>{escape(finding.title)} in '
        f"{escape(finding.subject)}{of}</h2>{_place(finding)}<dl>{rows}</dl>"
        f"{_table(finding.table)}{pictures}</section>"
    )


def _place(finding: Finding) -> str:
    if finding.place is None:
        return f'<div class="place">{escape(finding.kind)}</div>'
    where = f"{finding.place}  {finding.place.function}".strip()
    return (
        f'<div class="place">{escape(where)} ({escape(finding.kind)})</div>'
        f"<pre>{escape(finding.place.text)}</pre>"
    )


def _rows(finding: Finding) -> Iterator[tuple[str, str]]:
    """What is said of a finding, label and markup."""
    if finding.error is not None:
        explained = "" if finding.tolerance is None else f"; rounding: {finding.tolerance:.1e}"
        yield "how wrong", escape(f"relative error {finding.error:.3g}{explained}")
    yield "what it is", escape(finding.name.mistake.means)
    known = [finding.name.detail, finding.name.because, *finding.evidence]
    yield "how we know", "<br>".join([escape(s) for s in known if s])
    if finding.correction:
        yield "correction", _correction(finding, finding.correction)
    for name in finding.names[1:]:
        said = "; ".join([s for s in (name.detail, name.because, name.apart) if s])
        yield "or", escape(f"{name.mistake.title}: {said}")
    if finding.victims:
        yield "victims", escape("wrong because of it: " + ", ".join(finding.victims))


def _correction(finding: Finding, correction: Correction) -> str:
    code = [
        f'<pre class="{style}">{escape(f"{sign} {line}")}</pre>'
        for sign, style, text in (
            ("-", "bad", correction.before),
            ("+", "good", correction.after),
        )
        for line in text.splitlines()
    ]
    return f"{escape(correction.formula)}{''.join(code)}<div>{escape(tried(finding))}</div>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join([f"<th>{escape(c)}</th>" for c in rows[0]])
    body = ["".join([f"<td>{escape(c)}</td>" for c in row]) for row in rows[1:]]
    return f"<table><tr>{head}</tr>{''.join([f'<tr>{row}</tr>' for row in body])}</table>"


def _pictures(heat: Heat) -> Iterator[str]:
    sizes = f"y {heat.y_shape} by x {heat.x_shape}"
    for title, matrix, peak in three(heat):
        yield f"<figure>{_svg(blocks(matrix, CELLS), matrix.shape, peak or 1.0)}"
        yield f"<figcaption>{escape(title)}, {escape(sizes)}; strongest {peak:.3g}</figcaption>"
        yield "</figure>"


def _svg(cells: list[list[complex]], shape: tuple[int, ...], peak: float) -> str:
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
    size = f'width="{wide * side:.0f}" height="{high * side:.0f}"'
    return f'<svg {size} role="img" shape-rendering="crispEdges">{"".join(squares)}</svg>'


def _starts(size: int, parts: int) -> list[str]:
    """The indices that each part covers, to read."""
    edges = np.cumsum([0, *[len(p) for p in np.array_split(np.arange(size), parts)]]).tolist()
    return [str(a) if b - a == 1 else f"{a}..{b - 1}" for a, b in pairwise(edges)]


def _colour(cell: complex, peak: float) -> str:
    if not np.isfinite(cell):
        return "#000"
    # Half the way is gone at a tenth of the peak: small elements show.
    depth = min(1.0, abs(cell) / peak) ** 0.3
    pale = round(255 - 205 * depth)
    below = cell.real < 0
    return f"rgb({pale},{pale},255)" if below else f"rgb(255,{pale},{pale})"


def _ledger(ledger: Ledger) -> str:
    """The same words as in the terminal."""
    text = [line for line in plain(lines("", [], ledger)[1:]).splitlines() if line.strip()]
    rows = [(line[2 : LABEL + 2].strip(), line[LABEL + 2 :].strip()) for line in text]
    body = "".join([f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in rows])
    return f"<section><h2>ledger</h2><dl>{body}</dl></section>"
