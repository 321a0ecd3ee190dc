"""Certificates at the numbers of a trace: each contribution, and each gradient (see `differences`).

The rule of an op is taken at its word by every sweep. Here values alone are asked. An op whose
contributions differ is verified by itself, so that its slip gets the verifier's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.traces.certificates.probes import Probes
from chainrule.traces.check import sums_differ
from chainrule.traces.trace import Certificate, Message, Sweep, Trace, unchecked

if TYPE_CHECKING:
    from chainrule.verify.finding import Finding
    from chainrule.verify.subject import Subject

MOST_MESSAGES, MOST_ELEMENTS = 150, 20_000
"""A trace of more messages, or of more elements in all values, is not certified unless asked."""
MOST_SINGLE, MOST_RUNS = 400, 1_500
"""Elements of contributions that are compared one by one, and ops that run again for gradients, for
one step of differences, unless certificates are asked for."""
LONG = "the program is long: record it with certify=True"
HOOKED = "a hook changed a gradient on the way"


def is_small(trace: Trace) -> bool:
    """Whether certifying takes about a second at most."""
    count = sum([len(s.messages) for s in trace.sweeps])
    size = sum([math.prod(n.shape) for n in trace.nodes])
    return count <= MOST_MESSAGES and size <= MOST_ELEMENTS


def add_certificates(trace: Trace, ops: Sequence[Any], *, all_of_it: bool = False) -> Trace:
    """The trace with a certificate at each contribution and each gradient; `ops` made its nodes.

    Single elements, and gradients of long programs, are left out unless `all_of_it` is asked for.
    """
    from chainrule.traces.certificates.differences import (
        contribution_certificate,  # which takes time to load
    )

    probes = Probes(trace, ops)
    single = 0
    sweeps: list[Sweep] = []
    with np.errstate(all="ignore"):
        for sweep in trace.sweeps:
            messages: list[Message] = []
            for m in sweep.messages:
                single += getattr(m.contribution, "size", 0)
                each = all_of_it or single <= MOST_SINGLE
                found = contribution_certificate(sweep, m, probes, each=each)
                messages.append(replace(m, certificate=found))
            gradients = _of_gradients(trace, sweep, probes, all_of_it)
            sweeps.append(replace(sweep, messages=tuple(messages), certificates=gradients))
        return _name_findings(replace(trace, sweeps=tuple(sweeps)), probes)


def _of_gradients(
    trace: Trace, sweep: Sweep, probes: Probes, all_of_it: bool
) -> dict[int, Certificate]:
    """The certificates of the gradients that messages add up to."""
    from chainrule.traces.certificates.differences import gradient_certificate, runs_needed

    nodes = dict.fromkeys([m.target for m in sweep.messages if m.contribution is not None])
    if not all_of_it and runs_needed(trace, sweep) > MOST_RUNS:
        return dict.fromkeys(nodes, unchecked(LONG))
    hooked = _changed_by_hooks(trace, sweep)
    return {
        i: unchecked(HOOKED) if i in hooked else gradient_certificate(trace, sweep, i, probes)
        for i in nodes
    }


def _changed_by_hooks(trace: Trace, sweep: Sweep) -> set[int]:
    """The nodes whose gradient is no sum of contributions, and those that depend on it."""
    found = set(sums_differ(trace, sweep))
    for m in sweep.messages:
        if m.node in found:
            found.add(m.target)
    return found


# --- The name of the slip ------------------------------------------------------------------------


def _name_findings(trace: Trace, probes: Probes) -> Trace:
    """Where contributions of an op differ, what the verifier calls it, and how it corrects it."""
    wrong = {m.node for s in trace.sweeps for m in s.messages if _differs(m)}
    found = {i: _findings(probes.of(i).run.subject) for i in wrong}
    return replace(trace, sweeps=tuple([_with_names(s, trace, found) for s in trace.sweeps]))


def _differs(m: Message) -> bool:
    return m.certificate is not None and m.certificate.verdict == "differs"


def _with_names(sweep: Sweep, trace: Trace, found: Mapping[int, Sequence[Finding]]) -> Sweep:
    messages = [
        replace(m, certificate=_attach_finding(m.certificate, found.get(m.node, ()), trace, m))
        if m.certificate is not None and _differs(m)
        else m
        for m in sweep.messages
    ]
    return replace(sweep, messages=tuple(messages))


def _attach_finding(
    c: Certificate, found: Sequence[Finding], trace: Trace, m: Message
) -> Certificate:
    """The certificate with the finding about its input, or with the first one of its op."""
    if not found:
        return c
    name = trace.nodes[m.target].label
    finding = next((f for f in found if f.input == name), found[0])
    fix = finding.correction
    if fix is None or not fix.rechecked:
        return replace(c, slip=finding.title)
    return replace(c, slip=finding.title, before=fix.before.strip(), after=fix.after.strip())


def _findings(subject: Subject) -> Sequence[Finding]:
    from chainrule.verify.certifying.certify import certify

    return certify(subject.name, [subject]).findings
