"""A picture as the source of a Graphviz drawing."""

from __future__ import annotations

from chainrule.page.graph.picture import Card, Picture
from chainrule.page.graph.widths import shorten


def draw(picture: Picture, direction: str) -> str:
    """A `digraph`: one record per card, edges from inputs to what is computed from them."""
    lines = [
        "digraph chainrule {",
        f"  rankdir={'LR' if direction == 'right' else 'TB'};",
        '  node [shape=record, style=rounded, fontname="Helvetica", fontsize=11];',
    ]
    if picture.note:
        lines.append(f'  label="{_quote(picture.note)}";')
    lines += [f'  n{card.id} [label="{_label(card)}"];' for card in picture.cards]
    lines += [f"  n{e.source} -> n{e.target};" for e in picture.edges]
    return "\n".join([*lines, "}", ""])


def _label(card: Card) -> str:
    f = card.facts
    op = f.op if f.label and f.kind == "op" else ""
    step = f"step {card.step}" if card.step else ""
    cut = f"{card.cut} inputs left out" if card.cut else ""
    grad = f"∂ {f.grad}" if f.grad else ""
    rows = [step, card.name, op, f.type, f.value or "–", grad, f.line, cut]
    return " | ".join([_escape(shorten(row, 60)) for row in rows if row])


def _escape(text: str) -> str:
    """Characters that mean something in a record label, and then in a string."""
    return "".join([f"\\{c}" if c in '\\"{}|<>' else c for c in text])


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
