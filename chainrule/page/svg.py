"""SVG that every viewer can draw: colours and fonts are attributes of each element.

Viewers, editors and PDF writers know attributes; few know style sheets, and hardly one variables or
media queries in them. So the light colours are attributes, and the style sheet holds the dark ones
alone: who does not know it draws the light picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape, unescape
from typing import Any, final

from chainrule.page.palette import PALETTE, SANS

Look = Mapping[str, str | float]
"""Attributes of one class of elements; the values of `fill` and `stroke` are roles of the palette,
or colours."""

_COLOURS = ("fill", "stroke")


@final
class Svg(str):
    """The text of an SVG document, which a notebook shows as the picture that it is."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows where it cannot show a picture."""
        title = self.partition("<title>")[2].partition("</title>")[0]
        printer.text(f"<SVG of {len(self):,} letters: {unescape(title)}>")

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x:auto">{self}</div>'


@final
class Looks:
    """The looks of the classes of one kind of picture.

    Args:
        scope: The class of the whole picture, to which its style sheet is confined.
        rows: By class. Of an element with several classes, later rows win over earlier ones.
    """

    def __init__(self, scope: str, rows: Mapping[str, Look]) -> None:
        self.scope, self.rows = scope, rows

    def attributes(self, *names: str) -> str:
        """The attributes of an element with these classes."""
        whole: dict[str, str | float] = {}
        for name, row in self.rows.items():
            if name in names:
                whole.update(row)
        found = {k: _light(v) if k in _COLOURS else v for k, v in whole.items()}
        return attributes_text({"class": " ".join(names), **found})

    def sheet(self) -> str:
        """The style sheet: what differs where the reader prefers dark."""
        rules = [
            f".{self.scope} .{name}{{{';'.join(colours)}}}"
            for name, row in self.rows.items()
            if (colours := [f"{k}:{PALETTE[v].dark}" for k, v in _roles(row)])
        ]
        return "\n".join(["@media (prefers-color-scheme: dark) {", *rules, "}"])


def _roles(row: Look) -> list[tuple[str, str]]:
    return [(k, str(row[k])) for k in _COLOURS if row.get(k) in PALETTE]


def _light(value: str | float) -> str | float:
    colour = PALETTE.get(str(value))
    return value if colour is None else colour.light


def attributes_text(attributes: Mapping[str, Any]) -> str:
    """Attributes as they stand in a tag."""
    return " ".join([f'{name}="{escape(str(value))}"' for name, value in attributes.items()])


def document(
    body: Sequence[str], looks: Looks, width: str, height: str, title: str, description: str = ""
) -> Svg:
    """The whole picture, of `width` by `height` (numbers as they are to be written)."""
    head = {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": looks.scope,
        "role": "img",
        "width": width,
        "height": height,
        "viewBox": f"0 0 {width} {height}",
        "font-family": SANS,
        "xml:space": "preserve",  # two spaces in a text are two spaces
    }
    sheet = looks.sheet() if any(map(_roles, looks.rows.values())) else ""
    parts = [
        f"<svg {attributes_text(head)}>",
        f"<title>{escape(title)}</title>",
        *([f"<desc>{escape(description)}</desc>"] if description else []),
        *([f"<style>{sheet}</style>"] if sheet else []),
        *body,
        "</svg>",
    ]
    return Svg("\n".join(parts) + "\n")
