"""A function of chainrule's, certified: user-defined ops in it, every order, both modes."""

from __future__ import annotations

from chainrule.verify.alike import certified_after, merged
from chainrule.verify.certify import certify
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.own.call import Call
from chainrule.verify.own.cuts import explain_by_cuts
from chainrule.verify.own.forward_mode import forward_mode_of
from chainrule.verify.own.inside import functions_in
from chainrule.verify.own.orders import orders_of
from chainrule.verify.reporting.report import Report


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
