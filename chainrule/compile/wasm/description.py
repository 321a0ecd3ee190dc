"""What a module says of itself: the JSON that its loader reads, beside the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from chainrule.compile.export.call_data import InputInfo, name_results, without_folders
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.loops.expressions import Buffer
from chainrule.compile.runtime.scratch import Layout
from chainrule.compile.wasm.draws import WORDS
from chainrule.compile.wasm.layout import WORD, Addresses, Inputs, room

VERSION: Final = 1
Entry = dict[str, Any]
"""An array: its name, what it is, its dtype, shape, address and bytes."""


@final
@dataclass(frozen=True, slots=True)
class Description:
    """Where what lies in a module, and for how large sizes there is room."""

    layout: Layout
    addresses: Addresses
    inputs: Inputs
    given: Sequence[InputInfo]
    sizes: Mapping[str, int]

    def of(self, f: Callable[..., Any], checks: Sequence[str]) -> Entry:
        """All of it, of the program of `f`; `checks` are the words for indices that were outside,
        of which the last result tells."""
        at, results = self.addresses, list(self.inputs.results)
        outside = at.buffers[results.pop()] if checks else None
        state = [*self._inputs(self.inputs.state, each_step=False), *_generators(at)]
        sizes = [
            {"name": s, "address": place, "largest": self.sizes[s]} for s, place in at.sizes.items()
        ]
        entries = self._inputs(self.inputs.call, each_step=True), state, self._results(f, results)
        return described(f, at, sizes, entries, outside, checks)

    def _entry(
        self, name: str, about: str, b: Buffer, shape: Sequence[Extent], dtype: Any
    ) -> Entry:
        return {
            "name": name,
            "about": about,
            "dtype": "bfloat16" if dtype.kind == "V" else dtype.name,
            "shape": [_extent(n) for n in shape],
            "address": self.addresses.buffers[b],
            "bytes": room(b, self.sizes),
        }

    def _inputs(self, buffers: Sequence[Buffer], *, each_step: bool) -> list[Entry]:
        named = [g for g in self.given if g.each_step is each_step]
        pairs = zip(buffers, named, strict=False)
        return [self._entry(g.path, g.about, b, b.shape, b.dtype) for b, g in pairs]

    def _results(self, f: Callable[..., Any], buffers: Sequence[Buffer]) -> list[Entry]:
        rows = zip(name_results(f, len(buffers)), buffers, self.layout.results, strict=False)
        return [self._entry(name, "result", b, s.shape, s.dtype) for name, b, s in rows]


def described(
    f: Callable[..., Any],
    addresses: Addresses,
    sizes: Sequence[Entry],
    entries: tuple[list[Entry], list[Entry], list[Entry]],
    outside: int | None,
    checks: Sequence[str],
) -> Entry:
    """What a module of `f` says of itself: the `entries` are its inputs, its state, its results;
    at `outside` lies which of the `checks` failed."""
    inputs, state, results = entries
    return {
        "version": VERSION,
        "name": getattr(f, "__name__", "step"),
        "sizes": sizes,
        "inputs": _with_unique_names(inputs),
        "state": _with_unique_names(state),
        "results": _with_unique_names(results),
        "call": [addresses.call.begin, addresses.call.size],
        "returned": [addresses.results.begin, addresses.results.size],
        "outside": outside and {"address": outside, "words": [*map(without_folders, checks)]},
    }


def _generators(addresses: Addresses) -> list[dict[str, Any]]:
    return [
        {
            "name": "generator", "about": "random numbers", "dtype": "uint64", "shape": [WORDS],
            "address": address, "bytes": WORDS * WORD,
        }
        for address in addresses.generators.values()
    ]  # fmt: skip


def _with_unique_names(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, each under a name of its own: `x`, then `x_2`, `x_3`."""
    taken: set[str] = set()
    for e in entries:
        name, n = e["name"], 1
        while e["name"] in taken:
            n += 1
            e["name"] = f"{name}_{n}"
        taken.add(e["name"])
    return entries


def _extent(n: Extent) -> Any:
    """A size: a number, or a sum of [factor, [names of sizes]]."""
    return n if isinstance(n, int) else [[c, list(names)] for names, c in n.terms]
