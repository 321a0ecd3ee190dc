"""Forward, backward and update: a program in three, to be run one after the other.

Forward is what the loss depends on. Backward is what the gradients that stay depend on besides. If
none stays, it is what was not made where the new values of the state were made. Update is the rest,
and all that overwrites what earlier parts read. A value that a later part needs is kept in memory.

Notation: `slot` what stands for a place in memory: an input of the whole program, or the term that
is kept there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from chainrule.compile.graph.complex_parts import Parts
from chainrule.compile.graph.terms import Program, Term, in_order
from chainrule.compile.loops.views import is_view
from chainrule.engine.op import Pick
from chainrule.ops.shapes.shaping import Astype

NAMES = ("forward", "backward", "update")


@final
@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a program, a program of its own; where its inputs and its results lie."""

    name: str
    program: Program
    inputs: tuple[Term, ...]
    results: tuple[Term, ...]


def split(program: Program, gradients: frozenset[int]) -> list[Phase]:
    """The parts of `program` that compute anything; `gradients` are the inputs that hold gradients
    of the loss after the call. Each result of `program` is a term of its own that is computed."""
    kept = {t: program.inputs[i] for i, t in program.updates if i in gradients}
    splitter = _Splitter(program, gradients, _phases(program, gradients), kept)
    phases = [splitter.phase(p) for p in (2, 1, 0)]
    return [p for p in reversed(phases) if p.program.roots]


def _phases(program: Program, gradients: frozenset[int]) -> dict[Term, int]:
    """The number of the phase of each computed term."""
    losses = [t for t in program.results if t.shape == () and t.dtype.kind == "f"]
    counts = [t for t in program.results if t.dtype.kind in "biu"]  # they have no derivative
    forward = set(in_order([*losses[:1], *counts] or program.results))
    backward = set(in_order([t for i, t in program.updates if i in gradients]))
    others = [t for i, t in program.updates if i not in gradients]
    places = {_place(t) for t in others if t not in forward and t not in backward}
    out: dict[Term, int] = {}
    for t in [t for t in in_order(program.roots) if t.op is not None]:
        if isinstance(t.op, Pick):
            out[t] = out[t.args[0]]  # one of several results of a loop
        elif t in forward:
            out[t] = 0
        elif t in backward:
            out[t] = 1
        else:
            late = bool(gradients) or _place(t) in places
            out[t] = 2 if late or any(out.get(a) == 2 for a in t.args) else 1
    return out


def _place(t: Term) -> object:
    return (t.code, t.at)


@final
class _Splitter:
    """Makes phases, the last one first: what it needs, earlier ones keep."""

    def __init__(
        self,
        program: Program,
        gradients: frozenset[int],
        number: Mapping[Term, int],
        gradient_slots: Mapping[Term, Term],
    ) -> None:
        self.program, self.number = program, number
        self.gradients = gradients
        self.gradient_slots = gradient_slots
        self.needed: dict[Term, None] = {}

    def phase(self, p: int) -> Phase:
        """Phase `p`; the later ones have been made."""
        own = [
            (i, t) for i, t in self.program.updates
            if (1 if i in self.gradients else 2) == p
        ]  # fmt: skip
        returned = [t for t in self.program.results if self._of(t) == p]
        kept = [t for t in self.needed if self._of(t) == p]
        results = list(dict.fromkeys([*returned, *kept]))
        roots = [*results, *[t for _, t in own]]
        order, outside = self._reach(p, roots)
        slots = list(dict.fromkeys([*outside.values(), *[self.program.inputs[i] for i, _ in own]]))
        places = {s: replace(s, op=None, args=(), index=k) for k, s in enumerate(slots)}
        new = {t: _as_found(places[s], t) for t, s in outside.items()}
        for t in order:
            if t not in new:
                new[t] = replace(t, args=tuple([new[a] for a in t.args])) if t.args else t
        index = {s: k for k, s in enumerate(slots)}
        made = Program(
            tuple(places.values()),
            tuple([new[t] for t in results]),
            tuple([(index[self.program.inputs[i]], new[t]) for i, t in own]),
        )
        return Phase(NAMES[p], made, tuple(slots), tuple(results))

    def _of(self, t: Term) -> int:
        """The phase in which `t` is there; what is given is so from the start."""
        return self.number.get(t, 0)

    def _reach(self, p: int, roots: Sequence[Term]) -> tuple[list[Term], dict[Term, Term]]:
        """The terms that phase `p` needs, in order; and by term from outside its slot."""
        outside: dict[Term, Term] = {}

        def below(t: Term) -> tuple[Term, ...]:
            if (slot := self._slot(p, t)) is None:
                return t.args
            outside[t] = slot
            return ()

        return in_order(roots, below), outside

    def _slot(self, p: int, t: Term) -> Term | None:
        """Where phase `p` finds `t`, None if it computes it, or sees it through a view."""
        if t.op is None:
            return None if t.index is None else t
        if self._of(t) == p:
            return None
        if t in self.gradient_slots and p == 2:
            return self.gradient_slots[t]
        if is_view(t):
            return None
        self.needed[t] = None
        return t


def _as_found(place: Term, t: Term) -> Term:
    """What lies in `place` as what `t` is: the pairs of a complex input."""
    if place.dtype == t.dtype:
        return place
    return Term(Parts(), (place,), t.shape, t.dtype, None, None, t.code, t.at)


def with_distinct_results(program: Program) -> Program:
    """The program with copies in the place of results that are given, or stand there twice."""
    out: list[Term] = []
    for t in program.results:
        if t.op is None or t in out:
            t = t.then(Astype(t.dtype))
        out.append(t)
    return replace(program, results=tuple(out))
