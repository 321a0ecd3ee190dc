"""The colours of all pictures and pages, by what they stand for, for light and for dark."""

from __future__ import annotations

from typing import Final, NamedTuple


class Colour(NamedTuple):
    """One role's colour on a light and on a dark ground."""

    light: str
    dark: str


PALETTE: Final[dict[str, Colour]] = {
    "ground":      Colour("#ffffff", "#12161d"),  # behind everything
    "card":        Colour("#ffffff", "#1b212b"),  # a node of a graph
    "panel":       Colour("#f7f8fa", "#1b212b"),  # a section of a page
    "rim":         Colour("#d5dae3", "#38414f"),  # around cards and panels
    "rule":        Colour("#e5e7eb", "#2c3240"),  # lines that help to read a value
    "ink":         Colour("#1b2330", "#eef2f8"),  # text
    "soft":        Colour("#5c6778", "#9aa6b8"),  # text that stands back
    "edge":        Colour("#9aa4b5", "#6f7b8e"),
    "accent":      Colour("#3653c8", "#a9bbff"),  # ops; the training loss
    "accent_pale": Colour("#e7ecfd", "#293561"),
    "contrast":    Colour("#b4421a", "#ff9e70"),  # gradients; the held-out loss
    "leaf":        Colour("#eef7f1", "#182b22"),  # inputs
    "leaf_rim":    Colour("#9fcbb0", "#3d7055"),
    "constant":    Colour("#f3f4f7", "#20262f"),
    "bad":         Colour("#b42318", "#f97066"),
    "look":        Colour("#a5400a", "#fdb022"),
    "good":        Colour("#067647", "#47cd89"),
}  # fmt: skip

SANS: Final = "DejaVu Sans, Helvetica Neue, Helvetica, Arial, sans-serif"
MONO: Final = "DejaVu Sans Mono, Menlo, Consolas, Liberation Mono, monospace"

NOT_FINITE: Final = "#000000"
"""A number of a matrix that is NaN or infinite."""


def diverging(depth: float, *, below: bool) -> str:
    """The colour of a number of a matrix: white at depth 0, at 1 strong blue above zero and strong
    orange below; the same on any ground.

    >>> diverging(0.0, below=True), diverging(1.0, below=True), diverging(1.0, below=False)
    ('#ffffff', '#ff8432', '#3232ff')
    """
    pale, middle = (f"{round(255 - share * depth):02x}" for share in (205, 123))
    return f"#ff{middle}{pale}" if below else f"#{pale}{pale}ff"
