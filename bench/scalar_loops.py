"""How fast is a compiled function of `Value`s as loops, against its tape and the eager program?

Each program's loss and its gradients: by `jit` as loops, by `jit` as a tape (one operation after
the other), and as it is, on `Value` and on the class that it was written for (`scalar_peers`). The
first two run in turns; the figure is the median. The last row is the time that it takes to find and
to compile the loops, in processor time, once. Another name of the same length is recorded and
rolled up, and runs the compiled code that there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import chainrule as cr
from bench.pairs import Row, pair, row, seconds, show
from bench.scalar_peers import Closures, GPTStep, MLPStep, Tuples
from chainrule.compile.scalars.runs import CALLS
from chainrule.scalar import Value


def compiled(loss: Callable[[], Any], *, loops: bool) -> tuple[Callable[[], None], float]:
    """A step that computes the loss and adds to the gradients, and what its third call took."""
    f = cr.jit(lambda: loss())

    def step() -> None:
        f().backward()

    took = 0.0
    for n in range(CALLS + 1 if loops else CALLS - 1):
        start = time.process_time()
        step()
        took = time.process_time() - start if n == CALLS - 1 else took
    if not loops:
        f._numbers.runs().stay_tape("it is measured as one")
    return step, took


NAMES = [26, 4, 12, 12, 0, 5, 26], [26, 0, 21, 0, 18, 8, 26], [26, 14, 11, 8, 21, 3, 26]


def other_names() -> list[Row]:
    """Rows for names of one length that come for the first time, against the eager program."""
    loss = GPTStep(Value).loss
    f = cr.jit(loss)
    times: list[list[float]] = []
    for name in NAMES:
        times.append([])
        for _ in range(CALLS):
            start = time.process_time()
            f(name).backward()
            times[-1].append(time.process_time() - start)
    eager = min([seconds(lambda name=name: loss(name).backward()) for name in NAMES * 2])
    what, later = "microgpt, another name of that length", times[1:]
    return [
        Row(f"{what}: {how}", show(t), show(eager), f"{t / eager:.2g}", bound)
        for how, t, bound in (
            ("to record it", min([x[0] for x in later]), "≤ 20"),
            ("to roll it up", min([x[-1] for x in later]), "≤ 5"),
        )
    ]


def run() -> list[Row]:
    """Rows for micrograd's demo and for documents of microgpt."""
    rows: list[Row] = []
    for what, program, peer, aim in (
        ("micrograd's demo, 100 points", MLPStep, Closures, "≤ 0.2"),
        ("microgpt, a name of six letters", GPTStep, Tuples, "≤ 0.2"),
    ):
        fast, took = compiled(program(Value).loss, loops=True)
        tape, _ = compiled(program(Value).loss, loops=False)
        rows.append(row(f"{what}: loops against the tape", *pair(fast, tape), aim))
        for kind, bound in ((Value, "≤ 0.005"), (peer, "≤ 0.0005")):
            loss = program(kind).loss
            eager = min([seconds(lambda loss=loss: loss().backward()) for _ in range(5)])
            ours, _ = pair(fast, fast, blocks=5)
            against = f"{what}: loops against eager `{kind.__name__}`"
            rows.append(Row(against, show(ours), show(eager), f"{ours / eager:.2g}", bound))
        rows.append(Row(f"{what}: to find and compile the loops", show(took), "", "", "≤ 2.5 s"))
    return [*rows, *other_names()]
