"""JSON from files that anybody may have written: what is well-formed and mad is refused.

Python's own reader takes NaN, numbers that become infinite, and the last of two equal keys. It runs
out of stack on deep nesting, and what it makes may be twenty times as large as its text.
"""

from __future__ import annotations

import json
import math
from typing import Any, cast

MOST = 8 << 20
"""Bytes of a text; what is made of it takes at most some 200 MB."""
_DEEPEST, _DIGITS = 32, 400


def loads(raw: bytes, most: int = MOST) -> Any:
    """The value of a JSON text in UTF-8 of at most so many bytes.

    Raises `ValueError` with the rest of a sentence that begins with the text's name.
    """
    if len(raw) > most:
        raise ValueError(f"is larger than {most:,} bytes")
    try:
        text = raw.decode("utf-8", "surrogatepass")  # names of files may hold any byte
        value = json.loads(
            text, parse_float=_finite, parse_int=_whole, parse_constant=_constant,
            object_pairs_hook=_unique,
        )  # fmt: skip
    except RecursionError:
        raise ValueError(f"is nested more than {_DEEPEST} deep") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as cause:
        raise ValueError("is not JSON") from cause
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return value
    raise ValueError(f"is nested more than {_DEEPEST} deep")


def _inner(x: Any) -> list[Any]:
    """The lists and objects that stand in `x` itself."""
    parts: list[Any] = []
    if isinstance(x, dict | list):
        parts = [*x.values()] if isinstance(x, dict) else cast("list[Any]", x)
    return [p for p in parts if isinstance(p, dict | list)]


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"holds a number of {len(text)} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"holds {text:.20}, which is no finite number")
    return number


def _constant(text: str) -> float:
    raise ValueError(f"holds {text}, which is no number of JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("holds a key twice")
    return found
