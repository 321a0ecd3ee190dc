"""What a graph keeps, and who keeps a graph."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import GradientError
from chainrule.explain import leaks, saved_bytes
from tests.explain.lines import marked


def test_counts_what_rules_read_once():
    x = cr.tensor(np.ones((10, 20), np.float32), requires_grad=True)
    y = x.exp()  # exp
    z = y * y + x  # product
    saved = saved_bytes(z.sum())
    assert saved.total == y.nbytes  # kept by exp and, twice, by mul: one array
    assert saved.by_op() == {"exp": y.nbytes}
    assert saved.by_line() == {marked(__file__, "exp"): y.nbytes}
    assert saved.leaves == 0


def test_a_view_counts_as_what_it_keeps_alive():
    x = cr.tensor(np.ones((10, 20), np.float32), requires_grad=True)
    part = x.exp()[:1]
    saved = saved_bytes(cr.sin(part).sum())
    assert saved.total == 10 * 20 * 4


def test_parameters_are_counted_apart():
    w = cr.tensor(np.ones((20, 5), np.float32), requires_grad=True)
    x = cr.tensor(np.ones((10, 20), np.float32))
    saved = saved_bytes((x @ w).sum())
    assert (saved.total, saved.leaves) == (x.nbytes, 0)  # the rule of w reads x, nothing reads w
    saved = saved_bytes((w * w).sum())
    assert (saved.total, saved.leaves) == (0, w.nbytes)


def test_largest_first_and_in_words():
    x = cr.tensor(np.ones(1000), requires_grad=True)
    small = x[:10].exp()
    saved = saved_bytes(small.sum() + x.exp().sum())  # both
    sizes = [row.bytes for row in saved.rows]
    assert sizes == sorted(sizes, reverse=True)
    text = str(saved)
    assert text.startswith("7.9 KiB kept for the backward pass")
    assert "7.8 KiB  exp" in text
    assert marked(__file__, "both") in text


def test_nothing_is_kept_after_backward():
    x = cr.tensor([1.0], requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    assert saved_bytes(loss).total == 0
    with pytest.raises(GradientError, match="saved_bytes: this tensor has no graph"):
        saved_bytes(cr.tensor(1.0))


W = cr.tensor(np.ones((3, 2), np.float32), requires_grad=True)
history: list[cr.Tensor] = []


class Meter:
    """Something that remembers losses."""

    def __init__(self) -> None:
        self.seen: list[cr.Tensor] = []


def test_no_leak():
    last = [cr.tensor(0.0)]

    def step() -> None:
        last[0] = (W * W).sum()
        last[0].backward()

    report = leaks(step)
    assert not report
    assert str(report) == "No graph outlived its step."


def test_leak_into_a_global_list():
    def step() -> None:
        history.append((W * 2.0).exp().sum())  # kept

    report = leaks(step, steps=3)
    assert len(report.found) == 2  # the last step's may still be in use
    leak = report.found[0]
    assert (leak.op, leak.where, leak.nodes) == ("sum", marked(__file__, "kept"), 3)
    assert leak.bytes == 3 * 2 * 4
    names = {who for found in report.found for who in found.holders}
    assert names == {f"the global 'history[{i}]' of module {__name__}" for i in (0, 1)}
    assert "Keep the number (loss.item())" in str(report)
    history.clear()


def test_leak_into_a_local_object():
    meter = Meter()

    def step() -> None:
        meter.seen.append((W * 2.0).exp().sum())

    report = leaks(step, steps=2)
    assert len(report.found) == 1
    (where,) = {who for who in report.found[0].holders if "meter" in who}
    assert where.startswith("the local 'meter.seen[0]' of ")


def test_leaks_now():
    kept = (W * 3.0).exp().sum()  # now
    report = leaks()
    mine = [leak for leak in report.found if leak.where == marked(__file__, "now")]
    assert len(mine) == 1
    assert any("the local 'kept' of test_leaks_now()" in who for who in mine[0].holders)
    assert kept.shape == ()
