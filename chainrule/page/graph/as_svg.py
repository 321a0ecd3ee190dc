"""A picture as SVG: cards, and curves from inputs to what is computed from them.

The same picture gives the same bytes. Every viewer draws the light colours, a browser those of the
reader's light or dark setting (`page.svg`); no font, script or file is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from chainrule.page.graph.cards import STYLES, Sheet, measure, sheet
from chainrule.page.graph.layout import Gaps, Layout, arrange
from chainrule.page.graph.picture import Edge, Picture
from chainrule.page.graph.widths import shorten
from chainrule.page.palette import MONO
from chainrule.page.svg import Look, Looks, Svg, document

MARGIN = 16.0
RADIUS = 10.0
ARROW = 7.0
_Point = tuple[float, float]

_FILLS = {
    "op": "accent",
    "name": "ink",
    "value": "ink",
    "grad": "contrast",
    "faint": "soft",
    "step": "contrast",
}


def _text_look(style: str) -> Look:
    size, mono, bold = STYLES[style]
    family: Look = {"font-family": MONO} if mono else {}
    weight: Look = {"font-weight": "bold"} if bold else {}
    return {"fill": _FILLS[style], "font-size": size, **family, **weight}


LOOKS = Looks(
    "chainrule-graph",
    {
        "ground": {"fill": "ground"},
        "card": {"fill": "card", "stroke": "rim", "stroke-width": 1.2},
        "input": {"fill": "leaf", "stroke": "leaf_rim"},
        "constant": {"fill": "constant", "stroke-dasharray": "4 3"},
        "result": {"stroke": "accent", "stroke-width": 2},
        "badge": {"fill": "accent_pale"},
        "edge": {"fill": "none", "stroke": "edge"},
        "arrow": {"fill": "edge"},
        **{style: _text_look(style) for style in STYLES},
    },
)


def draw(picture: Picture, direction: str, *, flow: bool) -> Svg:
    """The SVG document. With `flow`, the wider an edge, the larger the gradient that takes it."""
    sheets = [sheet(card) for card in picture.cards]
    layout = layout_sheets(picture, sheets, direction)
    corners = [
        (x - s.wide / 2, y - s.tall / 2) for s, (x, y) in zip(sheets, layout.centers, strict=True)
    ]
    widths = _widths(picture, flow)
    ends = _ends(picture, sheets, corners, direction)
    edges = [
        _edge(e, _path(e, layout, k, direction, ends[k]), direction, widths[k])
        for k, e in enumerate(picture.edges)
    ]
    cards = [_card(s, corner) for s, corner in zip(sheets, corners, strict=True)]
    legend, least = _legend(picture, layout.extent[1] + 34, flow)
    wide = max(layout.extent[0], least) + 2 * MARGIN
    tall = layout.extent[1] + (56 if picture.note else 40) + 2 * MARGIN
    ground = LOOKS.attributes("ground")
    body = [
        f'<rect {ground} width="{_n(wide)}" height="{_n(tall)}" rx="{_n(RADIUS)}"/>',
        f'<g transform="translate({_n(MARGIN)} {_n(MARGIN)})">',
        *edges,
        *cards,
        *legend,
        "</g>",
    ]
    return document(body, LOOKS, _n(wide), _n(tall), _title(picture))


def layout_sheets(picture: Picture, sheets: Sequence[Sheet], direction: str) -> Layout:
    """Centers of the cards and bends of the edges as (x, y), inputs left of (or above) results."""
    right = direction == "right"
    sizes = [(s.wide, s.tall) if right else (s.tall, s.wide) for s in sheets]
    counts = [len(inputs) for inputs in picture.inputs()]
    edges = [(e.source, e.target, _port(e, counts, i)) for i, e in _in_order(picture)]
    layout = arrange(sizes, edges, Gaps(along=46, across=22, edge=18))
    if right:
        return layout
    return Layout(
        tuple([(y, x) for x, y in layout.centers]),
        layout.bands,
        tuple([tuple([(y, x) for x, y in bends]) for bends in layout.bends]),
        (layout.extent[1], layout.extent[0]),
    )


def _in_order(picture: Picture) -> list[tuple[int, Edge]]:
    """Each edge with its rank among those of its target."""
    ranks = [0] * len(picture.cards)
    out: list[tuple[int, Edge]] = []
    for e in picture.edges:
        out.append((ranks[e.target], e))
        ranks[e.target] += 1
    return out


def _port(e: Edge, counts: Sequence[int], rank: int) -> float:
    return (rank + 1) / (counts[e.target] + 1)


def _ends(
    picture: Picture, sheets: Sequence[Sheet], corners: Sequence[_Point], direction: str
) -> list[tuple[_Point, _Point]]:
    """Where each edge starts and ends; its inputs meet a card in their order."""
    counts = [len(inputs) for inputs in picture.inputs()]
    out: list[tuple[_Point, _Point]] = []
    for rank, e in _in_order(picture):
        s, t, port = sheets[e.source], sheets[e.target], _port(e, counts, rank)
        (sx, sy), (tx, ty) = corners[e.source], corners[e.target]
        if direction == "right":
            out.append(((sx + s.wide, sy + s.tall / 2), (tx, ty + t.tall * port)))
        else:
            out.append(((sx + s.wide / 2, sy + s.tall), (tx + t.wide * port, ty)))
    return out


def _path(
    e: Edge, layout: Layout, k: int, direction: str, ends: tuple[_Point, _Point]
) -> list[_Point]:
    """The points of edge number `k`: straight out of the layer where it starts, through the layers
    between, straight into that where it ends."""
    (sx, sy), (tx, ty) = ends
    out, into = layout.bands[e.source][1], layout.bands[e.target][0]
    if direction == "right":
        return [(sx, sy), (out, sy), *layout.bends[k], (into, ty), (tx, ty)]
    return [(sx, sy), (sx, out), *layout.bends[k], (tx, into), (tx, ty)]


def _widths(picture: Picture, flow: bool) -> list[float]:
    """A width per edge: 1.5, or by the order of magnitude of the gradient at its source."""
    sizes = [picture.cards[e.source].facts.size for e in picture.edges]
    finite = [s for s in sizes if s is not None and 0 < s < math.inf]
    if not flow or not finite:
        return [1.5] * len(sizes)
    top = math.log10(max(finite))
    return [_magnitude(s, top) for s in sizes]


def _magnitude(size: float | None, top: float) -> float:
    if size is None or size == 0:
        return 0.75
    if not size < math.inf:
        return 5.0
    return max(0.75, 5.0 - 1.0 * (top - math.log10(size)))


def _edge(e: Edge, points: Sequence[_Point], direction: str, wide: float) -> str:
    """A smooth curve through `points` that leaves and arrives along the direction of the layers."""
    right = direction == "right"
    x, y = points[-1]
    tip = (x - ARROW, y) if right else (x, y - ARROW)
    if points[-2] == points[-1]:  # the widest card of its layer: the curve ends at the arrow
        points = points[:-1]
    last = points[0]
    path = [f"M{_n(last[0])} {_n(last[1])}"]
    for bx, by in [*points[1:-1], tip]:
        ax, ay = last
        last = (bx, by)
        if (ay == by) if right else (ax == bx):
            path.append(f"L{_n(bx)} {_n(by)}")
            continue
        mx, my = (ax + bx) / 2, (ay + by) / 2
        c, d = ((mx, ay), (mx, by)) if right else ((ax, my), (bx, my))
        path.append(f"C{_n(c[0])} {_n(c[1])} {_n(d[0])} {_n(d[1])} {_n(bx)} {_n(by)}")
    half = 3.2 + wide / 2
    a, b = ((-ARROW, -half), (-ARROW, half)) if right else ((-half, -ARROW), (half, -ARROW))
    head = " ".join([f"{_n(x + dx)},{_n(y + dy)}" for dx, dy in ((0.0, 0.0), a, b)])
    return (
        f'<g id="e{e.source}-{e.target}-{e.input_index}"><path {LOOKS.attributes("edge")} '
        f'stroke-width="{_n(wide)}" d="{"".join(path)}"/>'
        f'<polygon {LOOKS.attributes("arrow")} points="{head}"/></g>'
    )


def _card(s: Sheet, corner: _Point) -> str:
    """A card as SVG: its box, its badge, its texts, its bars."""
    f = s.card.facts
    kind = () if f.kind == "op" else (f.kind,)
    look = LOOKS.attributes("card", *kind, *(("result",) if s.card.id == 0 else ()))
    badge = ""
    if s.badge:
        b = s.badge
        badge = (
            f'<rect {LOOKS.attributes("badge")} x="{_n(b.x)}" y="{_n(b.y)}" width="{_n(b.wide)}" '
            f'height="{_n(b.tall)}" rx="{_n(b.tall / 2)}"/>'
        )
    texts = "".join([_text(t.style, t.x, t.y, t.text) for t in s.texts])
    return (
        f'<g id="n{s.card.id}" transform="translate({_n(corner[0])} {_n(corner[1])})">'
        f'<rect {look} width="{_n(s.wide)}" height="{_n(s.tall)}" rx="{_n(RADIUS)}"/>'
        f"{badge}{texts}</g>"
    )


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text {LOOKS.attributes(style)} x="{_n(x)}" y="{_n(y)}">{escape(text)}</text>'


def _legend(picture: Picture, y: float, flow: bool) -> tuple[list[str], float]:
    """The line below the graph that says what is what, and the width that it needs."""
    has_lines = any(card.facts.line for card in picture.cards)
    parts = [
        ("op", "op"),
        ("value", "value"),
        ("grad", "∂ gradient"),
        *([("faint", "file:line that made it")] if has_lines else []),
        *([("faint", "wide edge: large gradient")] if flow else []),
    ]
    x = 4.0
    out: list[str] = []
    for style, text in parts:
        out.append(_text(style, x, y, text))
        x += measure(text, style) + 20
    if picture.note:
        out.append(_text("faint", 4, y + 20, picture.note))
        x = max(x, 24 + measure(picture.note, "faint"))
    return [f'<g class="legend">{"".join(out)}</g>'], x - 16


def _title(picture: Picture) -> str:
    name, count = shorten(picture.cards[0].name, 40), len(picture.cards)
    return f"{name}: a graph of {count} node{'s' if count > 1 else ''}"


def _n(x: float) -> str:
    """A coordinate, to a tenth; never minus zero."""
    return f"{round(x, 1) + 0.0:g}"
