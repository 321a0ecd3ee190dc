"""A function of chainrule's, certified: user-defined ops in it, every order, both modes.

Each order is a function of its own, whose derivative is verified. That of order 2 is the pull of
the function itself with fixed cotangents, as the engine records it to be differentiated again; that
of order 3 is the pull of this one. A wrong rule that is right at first order (a value that it takes
off the graph, say) shows there.

`detach()`, `.data`, `item()`, `no_grad`: each may be meant (a step function's made-up gradient, a
target network). Such a cut is named only where the gradient is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import apply, intercept_ops, is_recording, variable
from chainrule.engine.op import Detach, Op
from chainrule.engine.provenance import line_of, user_line
from chainrule.engine.tensors import Tensor
from chainrule.engine.watch import Watch, watching
from chainrule.errors import GradientError
from chainrule.transforms.functional import vjp
from chainrule.verify.certifying.certify import certify
from chainrule.verify.certifying.stages import certified_after, merged
from chainrule.verify.finding import Finding, Name
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.own.call import Call, Leaves, flows
from chainrule.verify.own.forward_mode import forward_mode_of, sixteenths
from chainrule.verify.own.function import functions_in
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report
from chainrule.verify.subject import values
from chainrule.verify.user_code import place_at


def certified_call(call: Call, order: int) -> Report:
    """The report on the derivatives of `call` up to `order`.

    Forward mode is looked at where reverse mode is right: both go by the same graph, so that what
    is wrong with that would be said twice.
    """
    ledger = Ledger()
    orders, why_not = orders_of(call, order)
    if why_not:
        ledger.skipped.append(Skipped(call.name, why_not))
    report = certify(call.name, [*functions_in(call), call, *orders], ledger=ledger)
    pushed = forward_mode_of([call, *orders][-1])
    if not report.ok or pushed is None:
        return Report(call.name, merged(explain_by_cuts(report.findings, call)), ledger)
    more = certified_after(call.name, [pushed], ledger)
    return Report(call.name, [*report.findings, *more], ledger)


_ORDINALS = {1: "first", 2: "second", 3: "third"}


def orders_of(call: Call, order: int) -> tuple[list[Call], str]:
    """Derivatives of `call` as subjects, so that those of the orders 2 to `order` are checked.

    And why there are fewer, if the engine refuses one: a refusal is no wrong gradient.
    """
    out: list[Call] = []
    for k in range(2, order + 1):
        f = _pull_function(call, k)
        before = _ORDINALS.get(k - 1, f"{k - 1}th")
        call = replace(
            call,
            name=f"{before} derivative of {_base(call.name)}",
            f=f,
            followed=f,
            kind="derivative",
        )
        try:
            xs = values(call)
            ys = call.forward(xs)
            call.pull(xs, [np.zeros_like(y) for y in ys])
        except GradientError as error:
            return out, f"order {k}: {error}"
        out.append(call)
    return out, ""


def _base(name: str) -> str:
    return name.rpartition(" derivative of ")[2]


def _pull_function(call: Call, order: int) -> Leaves:
    """The pull of `call` with fixed cotangents, as a function of its wanted inputs."""
    wanted = [i for i, x in enumerate(call.inputs) if x.wanted]
    below = call.f

    def pulled(*leaves: Any) -> list[Tensor]:
        def some(*xs: Any) -> list[Tensor]:
            full = list(leaves)
            for i, x in zip(wanted, xs, strict=True):
                full[i] = x
            return below(*full)

        ys, pull = vjp(some, *[leaves[i] for i in wanted])
        rng = np.random.Generator(np.random.PCG64(order))
        gs = [variable(sixteenths(rng, y.shape).astype(y.dtype)) for y in ys]
        return [b for b in pull(gs) if b.dtype.kind in INEXACT]

    return pulled


_CODES = ("unnamed", "detached", "partly_detached", "dropped", "missing_term", "stale")
"""Names that a cut explains."""


@dataclass(frozen=True)
class Cut:
    """A value that left the graph: how, and the user's line."""

    how: str
    place: Place

    def __str__(self) -> str:
        return f"{self.how} at {self.place}"


def cuts_in(call: Call) -> list[Cut]:
    """The places at which a value that depends on the inputs leaves the graph of `call`."""
    found: dict[Cut, None] = {}

    def left(x: Any, how: str) -> None:
        if how != "bool()" and flows(x):
            found[Cut(how, _here())] = None

    def look(op: Op, xs: Sequence[Any]) -> Any:
        if not is_recording() and not isinstance(op, Detach) and any(flows(x) for x in xs):
            found[Cut("no_grad", _here())] = None
        return apply(op, *xs)

    with watching(Watch(on_leave=left)), intercept_ops(look):
        call.run(values(call))
    return list(found)


def _here() -> Place:
    code, at = user_line()
    return place_at(code, line_of(code, at))


def explain_by_cuts(findings: Sequence[Finding], call: Call) -> list[Finding]:
    """The findings, those that a cut in `call` explains as one that says where it is.

    Called where every op is right by itself: what is lost then was cut.
    """
    lost = [
        f
        for f in findings
        if f.subject == call.name and f.level == "error" and f.name.code in _CODES
    ]
    cuts = cuts_in(call) if lost else []
    if not cuts:
        return list(findings)
    rest = [f for f in findings if all(f is not g for g in lost)]
    return [_join(lost, cuts), *rest]


def _join(lost: Sequence[Finding], cuts: Sequence[Cut]) -> Finding:
    """One finding for all inputs that miss what was cut off."""
    code = "detached" if all(f.name.code == "detached" for f in lost) else "partly_detached"
    where = "; ".join([str(c) for c in cuts])
    because = f"every op is right by itself, and the graph is cut: {where}"
    first = next((f for f in lost if f.name.code == code), lost[0])
    inputs = ", ".join([f.input for f in lost])
    others = [n for n in first.names if n.code not in (code, "unnamed")]
    return replace(
        first,
        names=(Name(code, because), *others),
        place=cuts[0].place if len(cuts) == 1 or first.place is None else first.place,
        evidence=(f"cut: {where}", f"the gradients of {inputs} miss it", *first.evidence),
    )
