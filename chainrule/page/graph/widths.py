"""How wide a text is, without a font at hand.

Widths are those of DejaVu Sans (in thousandths of the size), the widest of the usual fallback
fonts: what fits by this table fits in Helvetica, Arial, Segoe UI and the like too. A monospaced
letter is 0.602 wide in DejaVu Sans Mono, Menlo and SF Mono, less in Consolas.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_GROUPS = {
    "ijl' ,.|:;!": 0.34,
    'frtI-()[]{}/\\"J°·': 0.46,
    "ckszvxy_?": 0.6,
    "abdeghnopqu0123456789LFTESY*": 0.68,
    "ABCKPRVXZ$": 0.72,
    "GDHNOQU+<>=~^#−±×÷": 0.84,
    "mwMW%@&…": 1.01,
}
_WIDTH = {c: w for group, w in _GROUPS.items() for c in group}
MONO = 0.605
BOLD = 1.12


@lru_cache(maxsize=1 << 12)
def _letter(c: str) -> float:
    if unicodedata.combining(c):
        return 0.0
    if unicodedata.east_asian_width(c) in "WF" or ord(c) > 0xFFFF:
        return 1.3
    return _WIDTH.get(c, 0.84)


def width(text: str, size: float, *, mono: bool = False, bold: bool = False) -> float:
    """Width of `text` at font size `size`, never less than it is drawn.

    >>> width("abc", 10, mono=True) <= width("abc", 10)
    True
    """
    if mono:
        wide = [2 * MONO if _letter(c) > 1.2 else MONO for c in text]
        return size * sum(wide)
    return size * sum([_letter(c) for c in text]) * (BOLD if bold else 1.0)


def cells(text: str) -> int:
    """Columns that `text` takes in a terminal."""
    return sum([0 if unicodedata.combining(c) else 2 if _letter(c) > 1.2 else 1 for c in text])


def shorten(text: str, letters: int) -> str:
    """At most `letters` letters in one line, with an ellipsis where some are left out."""
    text = " ".join("".join([c if c.isprintable() else " " for c in text]).split())
    return text if len(text) <= letters else text[: letters - 1] + "…"
