"""From a program to its loops and to LLVM's language.

Imported only when something is compiled: a program that comes from the cache needs nothing of it.
"""

from __future__ import annotations

from chainrule.compile.cpu.core_split import split
from chainrule.compile.cpu.program_module import Module, emit
from chainrule.compile.graph.sizes import Extent
from chainrule.compile.graph.terms import Program
from chainrule.compile.loops import memory
from chainrule.compile.loops.duration import picoseconds
from chainrule.compile.loops.statements import Loops
from chainrule.compile.lower.kernels import write
from chainrule.compile.lower.planning import plan
from chainrule.compile.runtime.scratch import SHORT, Layout
from chainrule.compile.target import Target

CHECKING = False
"""Whether loops are checked as soon as they are made: in tests they are."""


def schedule(program: Program, target: Target) -> tuple[Loops, Layout]:
    """Loops, split over cores where there are several, and the memory that they want."""
    made = plan(program, target)
    loops = split(write(made)) if target.threads else write(made)
    objects = [*made.inputs, *made.memory.results]
    scratch = [b for b in loops.buffers if b.role == "scratch"]
    lives = memory.lifetimes(loops, scratch)
    scratch = [b for b in scratch if b in lives]
    specs = [t.spec for t in program.results]
    layout = Layout(loops.symbols, objects, specs, scratch, lives, _duration(loops))
    if CHECKING:
        from chainrule.compile.loops.check.checker import check

        check(loops)
    return loops, layout


def _duration(loops: Loops) -> Extent | None:
    """About how many picoseconds it takes; None if that is not known, or never little."""
    found = picoseconds(loops.kernels)
    if found is None or isinstance(found, int):
        return found if found is None or found < SHORT else None
    return None if max([n for _, n in found.terms]) > SHORT else found


def emit_module(loops: Loops, layout: Layout, target: Target, *, timed: bool = False) -> Module:
    """The module of loops; if `timed` it counts each kernel's cycles."""
    return emit(loops, layout.objects, layout.scratch, target, timed=timed)
