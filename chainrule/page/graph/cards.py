"""How big a card is and where its texts stand: the measured form of a picture, before any drawing.

A card has a head (a badge with the op, or the name of an input), then the value, the gradient, and
in small letters its type and line. Its width is that of its widest row, so no text leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.page.graph.picture import Card
from chainrule.page.graph.widths import shorten, width

PAD = 12.0
LEAST = 84.0
BADGE = 16.0
"""A badge is this much wider than its text."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text on a card: a CSS class, its left end and baseline, and its width by the table."""

    style: str
    x: float
    y: float
    text: str
    wide: float


@dataclass(frozen=True, slots=True)
class Badge:
    """The pill behind an op's name."""

    x: float
    y: float
    wide: float
    tall: float


@dataclass(frozen=True, slots=True)
class Sheet:
    """A measured card, with its upper left corner at (0, 0)."""

    card: Card
    wide: float
    tall: float
    texts: tuple[Text, ...]
    badge: Badge | None


STYLES: dict[str, tuple[float, bool, bool]] = {
    "op": (11.5, False, True),
    "name": (14.0, False, True),
    "value": (15.0, True, False),
    "grad": (13.0, True, False),
    "faint": (10.0, False, False),
    "step": (11.0, False, True),
}
"""By CSS class: font size, whether monospaced, whether bold."""


def measure(text: str, style: str) -> float:
    """Width of a text in a style."""
    size, mono, bold = STYLES[style]
    return width(text, size, mono=mono, bold=bold)


def sheet(card: Card) -> Sheet:
    """Measure a card."""
    f = card.facts
    texts: list[Text] = []

    def put(style: str, x: float, y: float, text: str) -> float:
        wide = measure(text, style)
        texts.append(Text(style, x, y, text, wide))
        return x + wide

    badge = None
    right = PAD
    label = shorten(f.label, 28)
    if f.kind == "op":
        op = shorten(f.op, 28)
        badge = Badge(PAD - 4, 8, measure(op, "op") + BADGE, 20)
        right = put("op", PAD - 4 + BADGE / 2, 22, op) + BADGE / 2
        if label:
            right = put("name", right + 7, 23, label)
    else:
        right = put("name", PAD, 23, label or f.op)
    if card.step:
        put("step", right + 12, 22, f"step {card.step}")
    y = 29.0
    value = shorten(f.value, 44)
    y += 20
    put("value", PAD, y, value or "–")
    if f.kind != "constant":
        y += 18
        end = put("grad", PAD, y, "∂ ")
        put("grad", end, y, shorten(f.grad, 44) or "–")
    small = "  ".join([s for s in (shorten(f.type, 30), shorten(f.line, 36)) if s])
    cut = f"{card.cut} input{'s' if card.cut > 1 else ''} left out" if card.cut else ""
    for row in (small, cut):
        if row:
            y += 16
            put("faint", PAD, y, row)
    wide = max(LEAST, *[t.x + t.wide + PAD for t in texts])
    return Sheet(card, wide, y + 11, tuple(texts), badge)
