"""Rows of what ends: by `done`, and by masks that are 1 where an episode goes on."""

from __future__ import annotations

from collections.abc import Iterator

from chainrule.engine.op import Array
from chainrule.verify.formulas.formula import Formula, Value

_MASKS = ("mask*", "nonterminal*", "nextnonterminal*", "not", "notdone*", "alive*", "cont",
          "continu*", "pcont*", "live*", "non", "undone")  # fmt: skip


def _by_masks(value: Value) -> Value:
    """The same of masks that are 1 where an episode goes on."""

    def of(rewards: Array, nonterminal: Array, *rest: Array) -> Iterator[Array]:
        yield from value(rewards, 1 - nonterminal, *rest)

    return of


def both(
    name: str, words: tuple[str, ...], takes: str, value: Value, source: str,
    up_to: str = "",
) -> Iterator[Formula]:  # fmt: skip
    """By `done`, and by what is 1 where an episode goes on."""
    shift = "shift and scale" if up_to else ""
    yield Formula(name, words, takes, value, source, shift)
    other = takes.replace("done[", "nonterminal[", 1)
    yield Formula(f"{name} by masks", _MASKS, other, _by_masks(value), source, shift)
