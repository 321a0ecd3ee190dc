"""What kernels ask of the program around them: libraries, threads, Python, a look for signals.

Who writes a module hands these over as functions that emit code. Where there is no platform there
is none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from chainrule.compile.loops.duration import nanoseconds
from chainrule.compile.loops.statements import Gemm, Kernel, Routine

if TYPE_CHECKING:
    from chainrule.compile.llvm.kernel import Emitter

STEP = 20_000.0
"""Nanoseconds of work, by an estimate, between two looks for signals, which take some 30."""
LONG = 1e6
"""Nanoseconds, by an estimate, from which on a loop looks for signals."""


class Polls(Protocol):
    """How the loops of one function look for signals: they leave it when the run is to end."""

    def between(self, b: Any, more: Any, body: Any, after: Any) -> None:
        """End an iteration: on to `body` if there is `more`, else to `after`."""
        ...

    def leave_if_stopped(self, b: Any) -> None:
        """Go on, unless the run is to end."""
        ...

    def look(self, b: Any) -> None:
        """Look for signals, and go on unless the run is to end."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Platform:
    """Functions that emit what a machine has."""

    polls: Callable[[Any, Any], Polls]
    """(function, number of the thread, None in the first) -> its polls."""
    host: Callable[[Any, Any, int], None]
    """(builder, host, number): let Python run the statement of that number."""
    library: Callable[[Emitter, Gemm | Routine], None]
    """A call of BLAS or LAPACK."""
    task: Callable[[Any, Any], Any]
    """(module, function) -> the function as a task, which does some of its iterations."""
    run_task: Callable[[Any, Any, Sequence[Any], Any, int, bool], None]
    """(builder, task, arguments, iterations, how many at a time at least, whether it polls)."""


def is_long(k: Kernel) -> bool:
    """Whether it may take so long that it looks for signals: by an estimate, or because sizes are
    not known."""
    reads, writes = k.buffers()
    known = all(isinstance(n, int) for b in [*reads, *writes] for n in b.shape)
    return not known or nanoseconds(k.body) >= LONG
