"""What a graph keeps, and who keeps a graph."""

from __future__ import annotations

import copy
import gc
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
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


class Block(nn.Module):
    """Two steps, the second of them its child's."""

    def __init__(self) -> None:
        self.inner = nn.Linear(4, 4)
        self.weight = cr.ones(4, requires_grad=True)

    def forward(self, x: cr.Tensor) -> cr.Tensor:
        return self.inner(x.exp()).tanh() * self.weight + self.inner(x)


class Net(nn.Module):
    """Blocks in a list, and the head that is called between them."""

    def __init__(self) -> None:
        self.blocks = [Block(), Block()]
        self.head = nn.Linear(4, 2, bias=False)

    def forward(self, x: cr.Tensor) -> cr.Tensor:
        x = self.blocks[0](x) * 2.0
        y = self.head(x)
        return self.blocks[1](x.sigmoid()) + y.sum()


X = cr.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), requires_grad=True)
ONE = 3 * 4 * 4
"""Bytes of an activation."""


def test_by_module_nothing_having_been_prepared():
    net = Net()
    net(X)  # an earlier call of the same modules
    saved = saved_bytes(cr.cos(net(X)).sum())
    expected = {
        "blocks.0": 3 * ONE,  # exp, which the child keeps, too, counts where it was made; what
        "blocks.1": 3 * ONE,  # tanh reads, and what it gives
        "head": ONE,  # its input, which sigmoid reads, too
        "blocks.1.inner": ONE,  # its input, which sigmoid gives
        "": ONE,  # the argument of cos
    }
    assert saved.by_module() == expected
    assert list(saved.by_module().values()) == sorted(expected.values(), reverse=True)
    assert sum(saved.by_module().values()) == saved.total == sum(saved.by_line().values())
    text = str(saved)
    assert "By module:\n" in text
    assert text.splitlines()[-1].split() in (
        ["48", "B", name] for name in ("head", "blocks.1.inner", "(outside)")
    )


def test_by_module_with_a_hook_and_after_an_error():
    net = Net()
    with pytest.raises(cr.ShapeError):
        net(cr.ones((3, 5)))
    plain = saved_bytes(net(X).sum()).by_module()
    net.head.register_forward_hook(lambda *_: None)
    assert saved_bytes(net(X).sum()).by_module() == plain


def test_by_module_of_several_outermost_modules():
    first, second, other = nn.Linear(4, 4), nn.Linear(4, 4), Block()
    loss = other(second(first(X * 2.0) * 2.0)).sum()
    named = saved_bytes(loss).by_module()
    assert named == {"Block": 3 * ONE, "Linear 1": ONE, "Linear 2": ONE, "Block.inner": ONE}


def test_a_module_that_is_gone_is_not_known():
    y = Block()(X)
    gc.collect()
    assert saved_bytes(y.sum()).by_module() == {"": 3 * ONE}


def test_a_copy_of_a_module_does_not_claim_its_calls():
    block = Block()
    y = block(X)
    for twin in (copy.deepcopy(block), copy.copy(block), pickle.loads(pickle.dumps(block))):
        assert saved_bytes(y.sum()).by_module() == {"Block": 3 * ONE}
        assert "_ran" not in vars(twin)
        assert [p.shape for p in twin.parameters()] == [p.shape for p in block.parameters()]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_module_that_is_a_dataclass(frozen: bool):
    """One that is not frozen has no hash."""

    @dataclass(frozen=frozen)
    class Square(nn.Module):
        power: float

        def forward(self, x: cr.Tensor) -> cr.Tensor:
            return cr.sin(x**self.power)

    square = Square(2.0)
    assert saved_bytes(square(X).sum()).by_module() == {"Square": ONE}


def test_by_module_what_a_block_made_stays_its_own_when_it_is_part_of_another():
    block = Block()
    alone = block(X)
    net = Net()
    net.blocks[0] = block
    both = saved_bytes((net(X) + alone.sum()).sum()).by_module()
    assert both["Block"] == 3 * ONE
    assert both["Net.blocks.0"] == 3 * ONE


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

    gc.unfreeze()  # what the suite has put aside: this module's names are to be found
    report = leaks(step, steps=3)
    gc.freeze()
    assert len(report.graphs) == 2  # the last step's may still be in use
    leak = report.graphs[0]
    assert (leak.op, leak.where, leak.nodes) == ("sum", marked(__file__, "kept"), 3)
    assert leak.bytes == 3 * 2 * 4
    names = {who for found in report.graphs for who in found.holders}
    assert names == {f"the global 'history[{i}]' of module {__name__}" for i in (0, 1)}
    assert "Keep the number (loss.item())" in str(report)
    history.clear()


def test_leak_into_a_local_object():
    meter = Meter()

    def step() -> None:
        meter.seen.append((W * 2.0).exp().sum())

    report = leaks(step, steps=2)
    assert len(report.graphs) == 1
    (where,) = {who for who in report.graphs[0].holders if "meter" in who}
    assert where.startswith("the local 'meter.seen[0]' of ")


def test_leaks_now():
    kept = (W * 3.0).exp().sum()  # now
    report = leaks()
    mine = [leak for leak in report.graphs if leak.where == marked(__file__, "now")]
    assert len(mine) == 1
    assert any("the local 'kept' of test_leaks_now()" in who for who in mine[0].holders)
    assert kept.shape == ()
