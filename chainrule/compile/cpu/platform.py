"""What a processor with an operating system and Python has for kernels."""

from __future__ import annotations

from functools import partial

from chainrule.compile.cpu import parallel_tasks
from chainrule.compile.cpu.interrupts import Polls, Run
from chainrule.compile.cpu.library_calls import gemm, routine
from chainrule.compile.llvm.kernel import Emitter
from chainrule.compile.llvm.platform import Platform
from chainrule.compile.loops.statements import Gemm, Routine


def processor(run: Run) -> Platform:
    """The platform of a module that knows of the run that goes on."""
    return Platform(
        polls=partial(Polls, run),
        host=run.host,
        library=_library,
        task=parallel_tasks.task,
        run_task=partial(parallel_tasks.run, run.poll),
    )


def _library(e: Emitter, s: Gemm | Routine) -> None:
    gemm(e, s) if isinstance(s, Gemm) else routine(e, s)
