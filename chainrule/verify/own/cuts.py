"""Where a function takes values off its graph: what then comes back over that path is lost.

`detach()`, `.data`, `item()`, `no_grad`: each may be meant (a step function's made-up gradient, a
target network). It is said only where the gradient is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from chainrule.engine.graph import apply, intercept_ops, is_recording
from chainrule.engine.op import Detach, Op
from chainrule.engine.provenance import line_of, user_line
from chainrule.engine.watch import Watch, watching
from chainrule.verify.finding import Finding, Name
from chainrule.verify.own.call import Call, flows
from chainrule.verify.place import Place
from chainrule.verify.reading import place_at
from chainrule.verify.subject import values

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


def explained(findings: Sequence[Finding], call: Call) -> list[Finding]:
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
    return [_joined(lost, cuts), *rest]


def _joined(lost: Sequence[Finding], cuts: Sequence[Cut]) -> Finding:
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
