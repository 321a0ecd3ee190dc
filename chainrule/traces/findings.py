"""A finding of the verifier as a trace: the op that is wrong, between its inputs and its output.

One message goes to the input whose gradient is wrong. Its local derivative is the Jacobian of the
backward that was verified; its certificate has what differences give, element by element, and the
name of the mistake with its correction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.traces.kept_values import Keeper, is_array
from chainrule.traces.trace import Certificate, Matrix, Message, Node, Sweep, Trace
from chainrule.verify.finding import Finding, Heat

_CLOSE = 1e-9
_SEED = 5
"""Of the gradient that the output is given."""


def trace_of_finding(finding: Finding) -> Trace | None:
    """The trace; None where the finding has no Jacobians of real numbers at a known point."""
    heat = finding.heat
    if (
        heat is None
        or not heat.inputs
        or "c" in (heat.analytic.dtype.kind, heat.numeric.dtype.kind)
    ):
        return None
    nodes = [*_inputs(heat), _op(finding, heat)]
    sweep = _sweep(finding, heat, len(nodes) - 1)
    place = finding.place
    lines = {} if place is None else {str(place): place.text}
    return Trace(finding.subject, tuple(nodes), (sweep,), lines)


def _inputs(heat: Heat) -> list[Node]:
    """A node for each input; that which is looked at is an input, the others are constants."""
    keeper, nodes = Keeper(), list[Node]()
    for k, (name, value) in enumerate(heat.inputs):
        kept: Any = keeper.keep(value) if is_array(value) else None
        if k == heat.input:
            wide = None if kept is None or not is_array(kept) else kept.astype(np.float64)
            fits = wide is not None and wide.shape == heat.x_shape
            nodes.append(
                Node("input", "input", (), "float64", heat.x_shape, wide if fits else None, name)
            )
        elif kept is not None:
            nodes.append(Node("constant", "constant", (), str(kept.dtype), kept.shape, kept, name))
        else:
            nodes.append(Node("constant", "constant", (), "", (), None, f"{name} = {value!s:.20}"))
    return nodes


def _op(finding: Finding, heat: Heat) -> Node:
    inputs = tuple(range(len(heat.inputs)))
    names = ", ".join([name for name, _ in heat.inputs])
    formula, line = f"{finding.subject}({names})", str(finding.place or "")
    return Node("op", finding.subject, inputs, "float64", heat.y_shape, None, "", line, "", formula)


def _sweep(finding: Finding, heat: Heat, op: int) -> Sweep:
    """The sweep of a finding: a cotangent, the wrong Jacobian, and what that gives."""
    rng = np.random.default_rng(_SEED)
    g = np.round(rng.uniform(0.5, 1.5, heat.y_shape) * rng.choice([-1, 1], heat.y_shape), 2)
    g = _frozen(g)
    rows, columns = np.nonzero(heat.analytic)
    rule = f"∂ {finding.subject} / ∂ {heat.inputs[heat.input][0]}"
    local = Matrix(
        _frozen(rows.astype(np.int32)),
        _frozen(columns.astype(np.int32)),
        _frozen(heat.analytic[rows, columns].astype(np.float64)),
        rule,
    )
    bar = _pull_back(heat.analytic, g, heat)
    message = Message(op, heat.input, heat.input, local, bar, _certificate(finding, heat, g, bar))
    return Sweep(op, g, (message,), {op: g, heat.input: bar})


def _certificate(finding: Finding, heat: Heat, g: Any, bar: Any) -> Certificate:
    """The certificate of a finding: how far the gradient is from the right one."""
    right = _pull_back(heat.numeric, g, heat)
    rough = np.zeros(heat.numeric.shape) if heat.bound is None else heat.bound
    bounds = _pull_back(rough, np.abs(g), heat) + _CLOSE * np.maximum(np.abs(right), np.abs(bar))
    fix = finding.correction
    known = fix is not None and fix.rechecked
    return Certificate(
        float(np.linalg.norm(bar - right)),
        float(np.linalg.norm(bounds)),
        "differs",
        finding.title,
        fix.before.strip() if fix is not None and known else "",
        fix.after.strip() if fix is not None and known else "",
        elements=right,
        bounds=_frozen(bounds),
    )


def _pull_back(jacobian: Any, g: Any, heat: Heat) -> Any:
    with np.errstate(all="ignore"):
        bar = np.where(jacobian == 0, 0, jacobian * g.reshape(-1, 1)).sum(axis=0)
    return _frozen(bar.reshape(heat.x_shape).astype(np.float64))


def _frozen(x: Any) -> Any:
    x = np.asarray(x)
    x.setflags(write=False)
    return x
