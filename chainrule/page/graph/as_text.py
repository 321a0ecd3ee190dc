"""A picture as text for terminals: a tree from the result to its inputs, drawn with box characters.

What is used twice is shown once and then referred to by a number; so is what would be indented too
far. Columns: the tree, value, gradient, type, line.
"""

from __future__ import annotations

from chainrule.page.graph.picture import Card, Picture
from chainrule.page.graph.widths import cells, shorten

DEEPEST = 24
"""Levels of indentation; a branch that goes deeper is shown further down, under its number."""


def draw(picture: Picture) -> str:
    """The text, one node a line."""
    rows = [(head, *(_columns(card) if card else ("",) * 4)) for head, card in _tree(picture)]
    titles = ("", "value", "gradient", "type", "line")
    used = [k for k in range(5) if k == 0 or any(r[k] for r in rows)]
    table = [titles, *rows]
    wide = {k: max([cells(r[k]) for r in table]) for k in used}
    lines = ["  ".join([_pad(r[k], wide[k]) for k in used]).rstrip() for r in table]
    return "\n".join([*lines, *(["", picture.note] if picture.note else [])])


def _pad(text: str, wide: int) -> str:
    return text + " " * (wide - cells(text))


def _columns(card: Card) -> tuple[str, str, str, str]:
    f = card.facts
    value = shorten(f.value, 60) or "–"
    grad = shorten(f.grad, 60) or ("" if f.kind == "constant" else "–")
    return value, grad, shorten(f.type, 30), shorten(f.line, 40)


def _tree(picture: Picture) -> list[tuple[str, Card | None]]:
    """The first column and the card of each row, None where a row only refers to another."""
    inputs = picture.inputs()
    number: dict[int, int] = {}
    """The number by which a card is referred to, given when it is needed."""
    drawn: dict[int, int] = {}
    rows: list[tuple[str, str, Card | None]] = []
    later = [0]
    for start in later:  # grows while it is walked
        if start in drawn:
            continue
        stack: list[tuple[int, str, str, int]] = [(start, "", "", 0)]
        while stack:
            i, before, branch, level = stack.pop()
            if i < 0:
                rows.append((f"{before}{branch}… {_left_out(-i)}", "", None))
            elif i in drawn or (level == DEEPEST and inputs[i]):
                number.setdefault(i, len(number) + 1)
                later.append(i)
                head = f"{before}{branch}{_name(picture.cards[i])}"
                rows.append((head, f" → #{number[i]}", None))
            else:
                drawn[i] = len(rows)
                rows.append((f"{before}{branch}{_name(picture.cards[i])}", "", picture.cards[i]))
                stack.extend(_children(picture.cards[i], inputs[i], before, branch, level))
    marks = {drawn[i]: f" #{n}" for i, n in number.items()}
    return [(head + marks.get(k, tail), card) for k, (head, tail, card) in enumerate(rows)]


def _children(
    card: Card, inputs: list[int], before: str, branch: str, level: int
) -> list[tuple[int, str, str, int]]:
    """What to draw below a card, last first; a negative number counts the inputs left out."""
    indent = before + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    below = [*inputs, *([-card.cut] if card.cut else [])]
    out = [(i, indent, "├─ ", level + 1) for i in below]
    if out:
        out[-1] = (below[-1], indent, "└─ ", level + 1)
    return out[::-1]


def _left_out(count: int) -> str:
    return f"{count} input{'s' if count > 1 else ''} left out"


def _name(card: Card) -> str:
    step = f"({card.step}) " if card.step else ""
    f = card.facts
    if not f.label:
        return step + shorten(f.op, 40)
    return step + shorten(f.label, 40) + (f" = {shorten(f.op, 40)}" if f.kind == "op" else "")
