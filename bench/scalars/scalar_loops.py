"""How fast is a compiled function of `Value`s as loops, against its tape and the eager program?

Each program's loss and its gradients: by `jit` as loops, by `jit` as a tape (one operation after
the other), and as it is, on `Value` and on the class that it was written for (`scalar_peers`). The
first two run in turns; the figure is the median. Then what it takes to find and to compile the
loops, in processor time, once. Another name of the same length runs the loops that there are; of
another length it is recorded, and compiled when its calls have taken some time; what is compiled
then runs all further lengths, which are only recorded.

At the end a whole step of training, Adam included, within one compiled function.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import chainrule as cr
from bench.pairs import Row, pair, row, seconds, show
from bench.scalars.scalar_peers import Closures, GPTStep, MLPStep, Tuples
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
LONGER = [[*name[:3], 7, *name[3:]] for name in NAMES]


def other_names() -> list[Row]:
    """Rows for names of a length that comes for the first time, and for others of that length,
    against the eager program."""
    loss = GPTStep(Value).loss
    f = cr.jit(loss)
    for name in (*NAMES, *NAMES):
        f(name).backward()
    took: list[float] = []
    while len(took) < CALLS or f._numbers.runs().loops is None:
        start = time.process_time()
        f(LONGER[len(took) % 3]).backward()
        took.append(time.process_time() - start)
    known = min([seconds(lambda name=name: f(name).backward()) for name in LONGER * 20])
    eager = min([seconds(lambda name=name: loss(name).backward()) for name in LONGER * 2])
    what = "microgpt, a name of another length"
    rows = [
        Row(f"{what}: {how}", show(t), show(eager), f"{t / eager:.2g}", bound)
        for how, t, bound in (
            ("to record it", took[0], "≤ 20"),
            (f"to compile it, at call {len(took)}", took[-1], "≤ 50"),
            ("any other name of that length", known, "≤ 0.02"),
        )
    ]
    return [*rows, *further_names(f, loss)]


def further_names(f: Any, loss: Callable[[Any], Any]) -> list[Row]:
    """Rows for names of a third length, which the loops of the second run as they are."""
    names = [[*name[:2], 1, *name[2:]] for name in LONGER]
    took, before = 0.0, f.traces
    while f.traces == before:  # arguments of a new kind may have to come twice
        start = time.process_time()
        f(names[0]).backward()
        took = time.process_time() - start
    runs = f._numbers.runs()
    each = took / len(runs.tape.code)
    eager = min([seconds(lambda name=name: loss(name).backward()) for name in names * 2])
    known = min([seconds(lambda name=name: f(name).backward()) for name in names * 20])
    what = "microgpt, a name of a third length"
    return [
        Row(f"{what}: to record it", show(took), show(eager), f"{took / eager:.2g}", "≤ 15"),
        Row(f"{what}: to record an operation", show(each), "", "", "≤ 5 µs"),
        Row(f"{what}: any other", show(known), show(eager), f"{known / eager:.2g}", "≤ 0.02"),
    ]


def step_of(number: Any) -> Callable[[int, Any], Any]:
    """A step of microgpt as it is published: loss, backward pass, Adam."""
    model = GPTStep(number)
    params, m, v = model.flat, model.first, model.second

    def train(step: int, name: Any) -> Any:
        loss = model.loss(name)
        loss.backward()
        rate = 0.01 * (1 - step / 1000)
        for i, p in enumerate(params):
            m[i] = 0.85 * m[i] + (1 - 0.85) * p.grad
            v[i] = 0.99 * v[i] + (1 - 0.99) * p.grad**2
            m_hat = m[i] / (1 - 0.85 ** (step + 1))
            v_hat = v[i] / (1 - 0.99 ** (step + 1))
            p.data -= rate * m_hat / (v_hat**0.5 + 1e-8)
            p.grad = 0
        return loss

    return train


def whole_steps() -> list[Row]:
    """Rows for steps of training, for names that come in turn."""
    names = [(26, *name[1:4], 8, *name[4:]) for name in NAMES]
    fast, eager, peer = cr.jit(step_of(Value)), step_of(Value), step_of(Tuples)
    any_order = cr.jit(step_of(Value), reassociate=True)
    for step in range(CALLS + 3):
        fast(step, names[step % 3])
        any_order(step, names[step % 3])
    ours = min([seconds(lambda s=s: fast(s, names[s % 3])) for s in range(300)])
    rows: list[Row] = []
    for kind, f, bound in ((Value, eager, "≤ 0.01"), (Tuples, peer, "≤ 0.0005")):
        theirs = min([seconds(lambda s=s, f=f: f(s, names[s % 3])) for s in range(4)])
        what = f"microgpt, a whole step of training: against eager `{kind.__name__}`"
        rows.append(Row(what, show(ours), show(theirs), f"{ours / theirs:.2g}", bound))
    again = min([seconds(lambda s=s: any_order(s, names[s % 3])) for s in range(300)])
    rows.append(Row("microgpt, a whole step, sums in any order", show(again), "", "", "≤ 20 µs"))
    return rows


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
    return [*rows, *other_names(), *whole_steps()]
