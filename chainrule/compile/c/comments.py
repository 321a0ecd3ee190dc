"""What comments say: which ops, on which lines of the user's."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

from chainrule.compile.graph.terms import Term
from chainrule.compile.loops.statements import Kernel
from chainrule.engine.provenance import line_of, location
from chainrule.engine.source_text import file_lines, short_line, source_line

_MEMBER = re.compile(r"^(?P<op>.+?) (?P<dtype>\w+)(?P<shape>\[.*?\])(?:  (?P<place>.*))?$")
_LONG = 60
_HERE = str(Path(__file__).parents[2])


def kernel_words(kernel: Kernel) -> list[str]:
    """The names of the ops of a kernel, each once; of one that only moves numbers, what it does."""
    ops = [m["op"] for m in map(_MEMBER.match, kernel.about) if m]
    moving = "transpose" if kernel.name.endswith("_pack") else "copy"
    return list(dict.fromkeys(ops)) or [moving]


def kernel_comment(kernels: Sequence[Kernel]) -> list[str]:
    """What a function computes that these kernels have in common, and on which lines."""
    members = [m for m in map(_MEMBER.match, kernels[0].about) if m]
    said = [m["op"] + _shape(m["shape"]) for m in members]
    head = said or [f"{kernel_words(kernels[0])[0]}, for what follows"]
    places = {m["place"]: None for k in kernels for m in map(_MEMBER.match, k.about) if m}
    times = f"; {len(kernels)} calls" if len(kernels) > 1 else ""
    return [*comma_list("", head, times), *[source_quote(p) for p in places if _is_users(p)]]


def _is_users(place: str | None) -> bool:
    """Whether there is a line to quote: a command of ours that is running has none."""
    file = (place or "").rpartition(":")[0]
    return bool(file_lines(file)) and not file.startswith(_HERE)


def _shape(text: str) -> str:
    return f" ({text[1:-1]})" if text != "[]" else ""


def comma_list(start: str, words: Sequence[str], end: str) -> list[str]:
    """`start`, the words with commas between them, and `end`, on as many lines as it takes."""
    lines = [start]
    for n, word in enumerate(words):
        last = n + 1 == len(words)
        if len(lines[-1]) + len(word) > 94 and lines[-1].strip() != start.strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(" " * len(start))
        lines[-1] += word + (end if last else ", ")
    return lines if words else [start + end]


def source_quote(place: str) -> str:
    """`train.py:12  loss = model.loss(x, y)` of the place `/home/me/train.py:12`."""
    file, _, line = place.rpartition(":")
    text = _plain(source_line(file, int(line)).strip())
    text = text if len(text) <= _LONG else text[: _LONG - 2] + " .."
    return short_line(place) + (f"  {text}" if text else "")


def _plain(text: str) -> str:
    """Without what would end a comment, or is not ASCII."""
    return text.replace("*/", "* /").replace("/*", "/ *").encode("ascii", "replace").decode()


def where(t: Term) -> str:
    """The user's line that made `t`, as `train.py:12`; nothing where that is not known."""
    place = None if t.code is None else location(t.code, t.at)
    return short_line(place) if place and _is_users(place) else ""


def names_of_results(order: Sequence[Term]) -> dict[Term, str]:
    """By term that is the value of a line `h = ..` of the user's: the name on its left."""
    last: dict[tuple[CodeType, int], Term] = {}
    for t in order:
        if t.code is not None:
            last[t.code, line_of(t.code, t.at)] = t
    out: dict[Term, str] = {}
    for (code, line), t in last.items():
        name = _target(source_line(code.co_filename, line))
        if name is not None:
            out[t] = name
    return out


def _target(line: str) -> str | None:
    try:
        (statement,) = ast.parse(line.strip()).body
    except (SyntaxError, ValueError):
        return None
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None
