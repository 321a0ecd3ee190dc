"""Programs traced at several sizes as one, which runs at any: its inputs say the sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

from chainrule.compile.graph.rules.fourier import lengths
from chainrule.compile.graph.rules.index_checks import add_index_checks
from chainrule.compile.graph.rules.simplify import simplify
from chainrule.compile.graph.size_polynomials import Sample
from chainrule.compile.graph.terms import Program, Terms, in_order
from chainrule.compile.graph.unification import holds_at, symbols_of, unify
from chainrule.compile.runtime.native_program import Native
from chainrule.errors import TraceError


@final
@dataclass(eq=False, slots=True)
class Sized:
    """A program with symbols, which reads their values from the shapes of its inputs."""

    run: Native
    places: list[tuple[str, int, int]]
    """Symbol, input, axis."""
    confirm: Callable[[dict[str, int]], bool] = lambda sizes: True
    """Whether the program holds at these sizes: the function is traced at them."""
    known: dict[tuple[int, ...], bool] = field(default_factory=dict[tuple[int, ...], bool])
    """By sizes, what `confirm` said."""
    last: tuple[tuple[int, ...], dict[str, int]] = field(default=((), {}))

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Whether the program holds at the sizes of these arrays. What the function raises there
        is raised."""
        sizes = self._sizes(inputs)
        if sizes not in self.known:
            names = [s for s, _, _ in self.places]
            self.known[sizes] = self.confirm(dict(zip(names, sizes, strict=True)))
        return self.known[sizes]

    def forget(self) -> None:
        """Give scratch memory back; a later call takes new one."""
        self.run.forget()

    def symbols(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The values of the symbols."""
        sizes = self._sizes(inputs)
        if sizes != self.last[0]:
            self.last = (sizes, {s: n for (s, _, _), n in zip(self.places, sizes, strict=True)})
        return self.last[1]

    def _sizes(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        return tuple([inputs[i].shape[a] for _, i, a in self.places])

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Run it on arrays."""
        return self.run(inputs, self.symbols(inputs))


@final
@dataclass(frozen=True, eq=False)
class Part:
    """A program of a trace; `checks` as `add_index_checks` gives them, `whole` as for `simplify`:
    these are transforms of a dynamic length, for which there is no formula."""

    stated: Program
    """As the function says it."""
    terms: Terms
    checks: list[str]
    whole: frozenset[int] = frozenset()

    @staticmethod
    def of(program: Program) -> Part:
        """With looks at its indices."""
        terms = Terms()
        stated, checks = add_index_checks(program, terms)
        return Part(stated, terms, checks)

    @cached_property
    def program(self) -> Program:
        """Simplified."""
        return simplify(self.stated, self.terms, self.whole, sizes_vary=True)

    def leaving(self, whole: frozenset[int]) -> Part:
        """The same with these terms whole."""
        return self if whole == self.whole else replace(self, whole=whole)


@final
class Joined:
    """The same part of traces at several sizes as one program."""

    def __init__(self, parts: Sequence[Part], samples: Sequence[Sample]) -> None:
        self._parts, self._samples = parts, samples
        self._programs = [p.program for p in parts]
        self.program = unify(self._programs, samples)

    def compiled(self) -> Sized:
        """What runs it at any sizes."""
        places = {s: self._place_of(s) for s in sorted(symbols_of(self.program))}
        native = Native(self.program, self._parts[0].checks)
        return Sized(native, [(s, *places[s]) for s in native.symbols])

    def holds(self, part: Part, sample: Sample) -> bool:
        """Whether this is what was traced at the sizes `sample`."""
        # Equal as stated is equal when simplified, and is cheaper to see.
        stated = self._unify_stated
        as_stated = stated is not None and holds_at(stated, part.stated, sample)
        like = part.leaving(self._parts[0].whole)
        return as_stated or holds_at(self.program, like.program, sample)

    @cached_property
    def _unify_stated(self) -> Program | None:
        """The parts as stated as one program, None if they say it differently; only asked for at
        another size."""
        try:
            return unify([p.stated for p in self._parts], self._samples)
        except TraceError:
            return None

    def _place_of(self, symbol: str) -> tuple[int, int]:
        """An input, and its axis, whose size the symbol is."""
        programs = self._programs
        for i, t in enumerate(programs[0].inputs):
            for a in range(len(t.shape)):
                pairs = zip(programs, self._samples, strict=True)
                if all(p.inputs[i].shape[a] == s[symbol] for p, s in pairs):
                    return i, a
        raise unseen(symbol)


def transforms_that_vary(a: Part, b: Part) -> frozenset[int]:
    """Numbers of the Fourier transforms, in order, whose lengths are others at other sizes."""
    pairs = zip(in_order(a.stated.roots), in_order(b.stated.roots), strict=False)
    return frozenset([i for i, (t, u) in enumerate(pairs) if lengths(t) != lengths(u)])


def unseen(symbol: str) -> TraceError:
    """What to raise where a program depends on a size that none of its inputs has."""
    return TraceError(
        f"jit: what is computed depends on the dynamic size {symbol!r}, but reads no argument that "
        f"has it, only its shape: use the argument's elements, or leave {symbol!r} out of `dynamic`"
    )
