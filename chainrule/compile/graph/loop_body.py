"""One iteration of a loop of unknown length, as a program of its own.

Such programs keep what only derivatives ask for (`detach`, aliases), since a loop may be
differentiated forward after it was recorded; `bare` takes it out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from chainrule.compile.graph.terms import Program, Term, Terms, in_order
from chainrule.engine.op import Need, Op, Pick, Spec
from chainrule.ops.indexing.selection import Take

COUNT: Final = 1
"""The carry that counts iterations, in a loop that says how many there are at most."""


@final
@dataclass(eq=False)
class WhileLoop:
    """A loop that goes on as long as its first carry, one bool, holds before an iteration.

    The inputs of `program` are so many carries, which it updates or leaves as they are, and what it
    only reads; it has no results. `inlined`: it computes the forward pass of a Function of the
    user's, whose own derivative it does not know. It may be made of another loop, which it
    `extends`: by carries that follow those of that one, and by what it reads last. `most` is how
    many iterations there are at most, if that is known: then the carry `COUNT` counts them from 0.
    """

    program: Program
    carries: int
    inlined: bool = False
    extends: WhileLoop | None = None
    most: int | None = None
    _run: Any = None
    """What does one iteration on arrays, for who does them one by one."""
    _simple: Program | None = None

    def specs(self) -> tuple[Spec, ...]:
        """Of the carries."""
        return tuple([t.spec for t in self.program.inputs[: self.carries]])

    def run(self, build: Callable[[Program], Any], arrays: Sequence[Any]) -> None:
        """One iteration: arrays of the carries are written in place. `build` makes a program
        run."""
        if self._run is None:
            self._run = build(bare(self.program))
        self._run(arrays)

    def simple(self, simplified: Callable[[Program], Program]) -> Program:
        """The program in simpler terms, made by `simplify` if they are not known yet."""
        if self._simple is None:
            self._simple = simplified(bare(self.program))
        return self._simple

    @property
    def known_simple(self) -> Program | None:
        """The program in simpler terms, if it was made."""
        return self._simple

    def after(self) -> list[Term]:
        """The new values of the carries."""
        new = dict(self.program.updates)
        return [new.get(i, t) for i, t in enumerate(self.program.inputs[: self.carries])]


def while_loop_of(t: Term) -> WhileLoop | None:
    """The iterations that `t` is all of, if it is such a loop."""
    loop = getattr(t.op, "loop", None)
    return loop if isinstance(loop, WhileLoop) else None


def replay(
    roots: Sequence[Term], known: dict[Term, Any], do: Callable[[Term, list[Any]], Any]
) -> list[Any]:
    """The values of `roots`. Those of inputs are `known`; `do(term, values of its arguments)` gives
    the others, a tuple for an op with several outputs."""
    for t in in_order(roots):
        if t in known:
            continue
        if t.op is None:
            known[t] = t.value
        elif isinstance(t.op, Pick):
            known[t] = known[t.args[0]][t.op.index]
        else:
            known[t] = do(t, [known[a] for a in t.args])
    return [known[t] for t in roots]


def depending(roots: Sequence[Term], on: set[Term]) -> set[Term]:
    """The terms that depend on one of the terms `on`, which are among them."""
    found = set(on)
    for t in in_order(roots):
        if any(a in found for a in t.args):
            found.add(t)
    return found


def bare(program: Program) -> Program:
    """The program without ops that only stand there for the sake of derivatives."""
    order = in_order(program.roots)
    return _with(program, {t: t.args[0] for t in order if t.op is not None and t.op.passes})


def without_repeated_loops(program: Program) -> Program:
    """The program in which a loop that another one extends, which carries tangents along as well,
    is not run beside it."""
    while True:
        order = in_order(program.roots)
        loops = [t for t in order if while_loop_of(t) is not None]
        pairs = [(t, wide) for t in loops for wide in loops if _extends(wide, t)]
        found = next((p for p in pairs if p[0] not in in_order([p[1]])), None)
        if found is None:
            return program
        program = _with(program, dict([found]))


def _extends(wide: Term, t: Term) -> bool:
    """Whether the loop `wide` is `t` and more: it begins with the same carries, and what it reads
    begins with what `t` reads."""
    n, m = t.op.loop.carries, wide.op.loop.carries
    if wide.op.loop.extends is not t.op.loop:
        return False
    rest = t.args[n:]
    return wide.args[:n] == t.args[:n] and wide.args[m : m + len(rest)] == rest


def _with(program: Program, instead: dict[Term, Term]) -> Program:
    """The program, in new terms, with other terms in the place of some."""
    terms = Terms()
    new: dict[Term, Term] = {
        t: terms.input(i, t.shape, t.dtype) for i, t in enumerate(program.inputs)
    }
    for t in in_order(program.roots, lambda t: (instead[t],) if t in instead else t.args):
        if t in instead:
            new[t] = new[instead[t]]
        elif t.op is not None:
            new[t] = terms.op(t.op, [new[a] for a in t.args], like=t)
        elif t not in new:
            new[t] = terms.constant(t.value)
    return Program(
        tuple([new[t] for t in program.inputs]),
        tuple([new[t] for t in program.results]),
        tuple([(i, new[t]) for i, t in program.updates]),
    )


def keep_inputs(program: Program, keep: Sequence[int]) -> Program:
    """The program without the inputs that are not in `keep`, which nothing reads."""
    place = {old: new for new, old in enumerate(keep)}
    updates = tuple([(place[i], t) for i, t in program.updates])
    return _with(Program(tuple([program.inputs[i] for i in keep]), (), updates), {})


class Keep(Op):
    """A tape with another row `at`: (tape, at, row) -> tape. `at` may be an array of places that
    differ; its axes are then the first ones of `row`."""

    @property
    def name(self) -> str:
        """`keep`."""
        return "keep"

    def eval(self, *xs: Any) -> Any:
        """A new tape."""
        tape, at, row = xs
        out = np.array(tape)
        out[at] = row
        return out

    def spec(self, *xs: Any) -> Any:
        """The tape's."""
        return xs[0]

    def reads(self, i: int) -> tuple[int, ...] | None:
        """Where the row is."""
        return None if i == 1 else (2,)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """Of the tape without that row; of the row."""
        row = xs[2]
        rest = self(g, xs[1], np.zeros(row.shape, row.dtype)) if need[0] else None
        return [rest, None, Take(0)(g, xs[1]) if need[2] else None]

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangents' tape with the row's tangent."""
        dots = [np.zeros(x.shape, x.dtype) if t is None else t for t, x in zip(ts, xs, strict=True)]
        return self(dots[0], xs[1], dots[2])
