"""Each rule of the grammar is checked: a trace that breaks it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.traces.check import check_trace, sums_differ
from chainrule.traces.trace import (
    Factor,
    Gather,
    Matrix,
    Product,
    Scatter,
    Sweep,
    Trace,
    unchecked,
)

X = np.array([[0.5, -1.5, 2.5], [1.25, 0.75, -0.25]])
Change = Callable[[Any], Any]


def program(x: Any, w: Any) -> Any:
    return cr.sum(cr.cumulative_prod(cr.exp(x) @ w, axis=-1)[0] * 2.0)


def recorded() -> Trace:
    return cr.record(program, X, X.T + 1)


def node(i: int, **change: Any) -> Change:
    def apply(t: Trace) -> Trace:
        nodes = list(t.nodes)
        nodes[i] = replace(nodes[i], **change)
        return replace(t, nodes=tuple(nodes))

    return apply


def sweep(**change: Any) -> Change:
    def apply(t: Trace) -> Trace:
        made = {k: f(t.sweeps[0]) if callable(f) else f for k, f in change.items()}
        return replace(t, sweeps=(replace(t.sweeps[0], **made),))

    return apply


def message(form: type | None, change: Callable[[Any], Any]) -> Change:
    """Change the first message whose local derivative has a form."""

    def apply(t: Trace) -> Trace:
        sent = list(t.sweeps[0].messages)
        at = next(i for i, m in enumerate(sent) if form is None or isinstance(m.local, form))
        sent[at] = change(sent[at])
        return sweep(messages=tuple(sent))(t)

    return apply


def local(form: type, **change: Any) -> Change:
    def changed(m: Any) -> Any:
        made = {k: f(getattr(m.local, k)) if callable(f) else f for k, f in change.items()}
        return replace(m, local=replace(m.local, **made))

    return message(form, changed)


def without(key: Callable[[Sweep], int]) -> Callable[[Sweep], Any]:
    return lambda s: {i: g for i, g in s.gradients.items() if i != key(s)}


BROKEN: dict[str, tuple[Change, str]] = {
    "a kind": (node(0, kind="other"), "no known kind"),
    "an input of an input": (node(0, inputs=(0,)), "has inputs"),
    "an input made later": (node(1, inputs=(5,)), "not made before"),
    "an input of itself": (node(1, inputs=(1,)), "not made before"),
    "a size below 0": (node(0, shape=(-2, 3), value=None), "has the shape"),
    "many axes": (node(0, shape=(1,) * 99, value=None), "has the shape"),
    "a value of another shape": (node(0, value=X.T), "not float64"),
    "a value of another dtype": (node(0, value=X.astype("f4")), "is float32"),
    "a value that is none": (node(0, value="x"), "no array"),
    "a result": (sweep(result=99), "has the result"),
    "a seed": (sweep(seed=X), "the seed"),
    "another result": (sweep(more={99: None}), "has the result"),
    "a result without gradient": (sweep(gradients=without(lambda s: s.result)), "no gradient"),
    "a gradient of no node": (sweep(gradients=lambda s: {**s.gradients, 99: None}), "gradient of"),
    "a gradient's shape": (sweep(gradients=lambda s: {**s.gradients, 0: X[0]}), "gradient of"),
    "a certificate of no gradient": (sweep(certificates={99: unchecked("")}), "no gradient"),
    "a certificate's verdict": (
        sweep(certificates={0: replace(unchecked(""), verdict="?")}), "no known verdict"),
    "a certificate's elements": (
        sweep(certificates={0: replace(unchecked(""), elements=X[0], bounds=X[0])}),
        "not of shape"),
    "a certificate's bounds": (
        sweep(certificates={0: replace(unchecked(""), elements=X)}), "no bounds"),
    "a message's certificate": (
        message(None, lambda m: replace(m, certificate=replace(unchecked(""), verdict="?"))),
        "no known verdict"),
    "a sender": (message(None, lambda m: replace(m, node=99)), "there is not"),
    "a place": (message(None, lambda m: replace(m, place=9)), "which is not input"),
    "a target": (message(None, lambda m: replace(m, target=0)), "which is not input"),
    "a sender without gradient": (
        sweep(gradients=without(lambda s: s.messages[1].node)), "no gradient"),
    "a target without gradient": (
        sweep(gradients=without(lambda s: s.messages[-1].target)), "no gradient"),
    "the order": (sweep(messages=lambda s: s.messages[::-1]), "has run already"),
    "a contribution": (message(None, lambda m: replace(m, contribution=X[:, :1])), "contribution"),
    "a factor's shape": (local(Factor, values=np.ones(7)), "has shape"),
    "a product's letters": (local(Product, letters=("a", "bc")), "do not fit the axes"),
    "a product's sizes": (local(Product, out="ba"), "do not fit the sizes"),
    "a product's place": (local(Product, place=7), "is for input"),
    "a scatter's count": (local(Scatter, target=lambda x: x[:-1]), "places"),
    "a scatter's places": (local(Scatter, target=lambda x: x + 99), "beyond"),
    "a scatter's dtype": (local(Scatter, target=lambda x: x.astype(float)), "places"),
    "a gather's places": (local(Gather, source=lambda x: x - 99), "beyond"),
    "a matrix's rows": (local(Matrix, rows=lambda x: x + 99), "beyond"),
    "a matrix's columns": (local(Matrix, columns=lambda x: x[1:]), "places"),
}  # fmt: skip


def test_a_whole_trace_passes():
    check_trace(recorded())
    got = {type(m.local) for m in recorded().sweeps[0].messages}
    assert {Factor, Product, Scatter, Matrix} <= got


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_named(what: str):
    change, said = BROKEN[what]
    whole = cr.record(lambda x: cr.broadcast_to(x, (4, 3)), X[0])
    trace = whole if what.startswith("a gather") else recorded()
    if what.startswith("a gather"):
        at: Any = trace.sweeps[0].messages[0].local
        if not isinstance(at, Gather):
            change = message(None, lambda m: replace(
                m, local=Gather(np.arange(12) % 3 - 99, np.ones(12), "1")))  # fmt: skip
    with pytest.raises(ValueError, match=said):
        check_trace(change(trace))


def test_a_sum_that_differs_is_found():
    trace = recorded()
    assert sums_differ(trace, trace.sweeps[0]) == []
    g: Any = trace.sweeps[0].gradients[0]
    changed = sweep(gradients=lambda s: {**s.gradients, 0: np.nextafter(g, 9)})(trace)
    assert sums_differ(changed, changed.sweeps[0]) == [0]
