"""What a compiled function of Values runs, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chainrule.compile.scalars.lines import in_words
from chainrule.compile.scalars.reroll.family import Family
from chainrule.compile.scalars.reroll.units import GATHER, LARGEST, SUM
from chainrule.compile.scalars.runs import Runs
from chainrule.compile.scalars.steps.update import Update


def explained(name: str, runs: Runs, update: Update | None = None) -> str:
    """The families that its loops compute, or why it runs as a tape; of a step also its update."""
    text = _explained(name, runs)
    if update is not None:
        text += "\n" + _explained("then, after the backward pass", update)
    return text


def _explained(name: str, runs: Runs | Update) -> str:
    n = len(runs.tape.code)
    if runs.loops is None:
        return f"{name}: a tape of {n:,} operations, one after the other: {runs.why}"
    families = runs.loops.families.families
    head = f"{name}: {n:,} operations on single numbers, as loops over {len(families)} families"
    if runs.loops.families.sizes is not None:
        head += ", compiled for several lengths"
    elif isinstance(runs, Runs) and runs.alone:
        head += f", compiled for this length: {runs.alone}"
    return "\n".join([head, *_lines(families, runs.tape.files)])


def _lines(families: list[Family], files: list[str]) -> Iterator[str]:
    """A line for each family, in the order in which they are computed; equal ones once."""
    at: dict[str, dict[str, set[int]]] = {}
    for family in families:
        mine = at.setdefault(_line(family), {})
        lines: list[tuple[int, int]] = family.lines.tolist()
        for file, line in lines:
            mine.setdefault(Path(files[file]).name, set()).add(line)
    for line, times in Counter(map(_line, families)).items():
        source = f", from {in_words(at[line])}" if at[line] else ""
        yield f"  {line}" + (f", {times} times" if times > 1 else "") + source


def _line(family: Family) -> str:
    sizes = " x ".join([str(a.extent) for a in family.nest.axes]) or "1"
    full = all(
        not any(a.low.coefficients) and not any(a.high.coefficients) for a in family.nest.axes
    )
    count = sizes if full else f"{family.units} of {sizes}"
    gathers = family.op != GATHER and any(
        s.at.table is not None for r in family.runs for t in r.terms for s in t
    )
    return f"{count} {_what(family)}" + (", some operands by a table" if gathers else "")


def _what(family: Family) -> str:
    if family.op == GATHER:
        return "numbers that ints choose"
    if family.op not in (SUM, LARGEST):
        return family.op
    longest = max(family.runs, key=lambda r: r.extent)
    if longest.extent == 1:
        return "sums"
    even = not any(longest.count.coefficients)
    most = f"{longest.extent}" if even else f"at most {longest.extent}"
    if family.op == LARGEST:
        return f"maxima of {most}"
    return f"dot products of {most}" if len(longest.terms[0]) == 2 else f"sums of {most}"


def word_of(family: Family) -> str:
    """What a family computes, in a word."""
    if family.op == GATHER:
        return "chosen"
    if family.op == LARGEST:
        return "largest"
    long = family.op == SUM and all(r.extent > 1 for r in family.runs)
    pairs = all(len(t) == 2 for r in family.runs for t in r.terms)
    return "dot_product" if long and pairs else family.op
