"""A function of chainrule's, certified: user-defined ops in it, every order, both modes.

Each order is a function of its own, whose derivative is verified. That of order 2 is the pull of
the function itself with fixed cotangents, as the engine records it to be differentiated again; that
of order 3 is the pull of this one. A wrong rule that is right at first order (a value that it takes
off the graph, say) shows there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.graph import variable
from chainrule.engine.tensors import Tensor
from chainrule.errors import GradientError
from chainrule.transforms.functional import vjp
from chainrule.verify.alike import certified_after, merged
from chainrule.verify.certify import certify
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.own.call import Call, Leaves
from chainrule.verify.own.cuts import explain_by_cuts
from chainrule.verify.own.forward_mode import forward_mode_of, sixteenths
from chainrule.verify.own.function import functions_in
from chainrule.verify.reporting.report import Report
from chainrule.verify.subject import values


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
