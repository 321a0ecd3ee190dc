"""Hooks that write: how much, at which line, with which correction; and nothing of ours stays."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from chainrule.verify.finding import Finding
from chainrule.verify.script.sandbox.fork import can_fork
from chainrule.verify.training.watching import watching
from tests.verify.script.test_script_again import corrected
from tests.verify.training.programs.training_models import batch, mlp
from tests.verify.training.test_training_right import observed


def step(m, steps=3, after=lambda: None):
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(steps):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        after()
        o.step()


def writes(found) -> list[Finding]:
    return [f for f in found if f.name.code == "writes"]


def test_how_much_the_gradient_changes():
    def loop():
        m = mlp()
        m[2].bias.register_hook(lambda g: print(g.mul_(3).shape))
        step(m)

    (one,) = writes(observed(loop)[0])
    assert one.level == "error"
    assert "1 of 1 elements changed, the gradient by 2 of its norm" in one.name.because
    assert one.place is not None and "g.mul_(3)" in one.place.text
    assert one.correction is not None and "g.mul" in one.correction.formula


def test_the_line_within_a_function_is_named():
    def look(g):
        top = g.max()
        g.sub_(top)

    def loop():
        m = mlp()
        m[0].weight.register_hook(look)
        step(m)

    (one,) = writes(observed(loop)[0])
    assert one.level == "warning"  # a statement of its own: somebody wants it
    assert one.place is not None and one.place.text == "g.sub_(top)"


def scaled(g):
    return g.mul_(2)


def unscaled(g):
    g.clamp_(-1e6, 1e6)


@pytest.mark.parametrize("hook", [scaled, unscaled])
def test_what_is_meant_and_what_changes_nothing_are_notes(hook):
    def loop():
        m = mlp()
        m[0].weight.register_hook(hook)
        step(m)

    assert [f.level for f in writes(observed(loop)[0])] == ["note"]


def masked(g):
    return g * (g > g.median())


def doubled(g):
    return 2 * g


def scaled_to_one(g):
    g = g.clone()
    return g / g.norm()


def shifted(g):
    return g + g.abs().mean()


def read(g):
    print(g.shape)


def kept(g):
    return g.clamp(-1e6, 1e6)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (masked, "what has changed is 0, or was"),
        (doubled, "the gradient by 1 of its norm; what is not 0 is multiplied by 2"),
        (scaled_to_one, "another number in each call"),
        (shifted, "64 of 64 elements changed"),
    ],
)
def test_a_hook_that_returns_another_gradient_is_noted_with_how_much_it_changes(hook, words):
    def loop():
        m = mlp()
        m[0].weight.register_hook(hook)
        step(m)

    (one,) = observed(loop)[0]
    assert (one.level, one.name.code) == ("note", "hooked")
    assert words in one.name.because
    assert one.place is not None and one.place.text.startswith("return")


@pytest.mark.parametrize("hook", [read, kept])
def test_a_hook_that_changes_nothing_is_not_spoken_of(hook):
    def loop():
        m = mlp()
        m[0].weight.register_hook(hook)
        step(m)

    assert observed(loop)[0] == []


def test_a_modules_hook_that_returns_another_gradient_is_noted():
    def loop():
        m = mlp()
        m[2].register_full_backward_hook(lambda module, before, after: (3 * before[0],))
        m[1].register_full_backward_pre_hook(lambda module, after: after[0] / 4)
        step(m)

    found = observed(loop)[0]
    assert [f.name.code for f in found] == ["hooked", "hooked"]
    assert sorted([f.name.because.rpartition(" ")[2] for f in found]) == ["0.25", "3"]


def test_a_hook_from_before_is_seen_and_put_back():
    m, log = mlp(), []

    def hook(g):
        log.append(g.neg_().sum())

    m[0].weight.register_hook(hook)
    with watching() as report:
        step(m)
    assert [f.name.code for f in report.findings] == ["writes"]
    assert list((m[0].weight._backward_hooks or {}).values()) == [hook]


def test_hooks_that_are_registered_meanwhile_are_the_users_own_afterwards():
    m = mlp()

    def hook(g):
        return g / 2

    with watching():
        handle = m[0].weight.register_hook(hook)
        step(m)
    assert list((m[0].weight._backward_hooks or {}).values()) == [hook]
    handle.remove()
    assert not m[0].weight._backward_hooks
    assert torch.Tensor.register_hook.__module__ == "torch._tensor"
    assert "_get_backward_hooks" in vars(nn.Module)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what PyTorch imports for that
def test_what_is_compiled_has_the_users_hooks():
    m = mlp()

    def hook(g):
        return g / 2

    with watching():
        m[0].weight.register_hook(hook)
        torch.compile(m)
        m[2].weight.register_hook(hook)
        for part in (m[0], m[2]):
            assert list((part.weight._backward_hooks or {}).values()) == [hook]


def test_a_tensor_with_a_hook_that_is_gone_is_forgotten():
    with watching():
        x = torch.ones(3, requires_grad=True)
        x.register_hook(lambda g: g * 2)
        ref = weakref.ref(x)
        del x
        gc.collect()
        assert ref() is None


def test_a_hook_of_a_method_moves_with_a_copy_of_its_module():
    """As PyTorch does it: the copy's hook is that of the copy."""

    class Counting(nn.Linear):
        def __init__(self):
            super().__init__(4, 1)
            self.count = 0
            self.register_full_backward_hook(self.counted)

        def counted(self, module, grad_input, grad_output):
            self.count += 1

    def run():
        m = Counting()
        other = copy.deepcopy(m)
        other(torch.ones(2, 4, requires_grad=True)).sum().backward()
        return m.count, other.count

    plain = run()
    with watching():
        assert run() == plain


def test_a_hook_that_fails_fails_as_without_us():
    class OwnError(Exception):
        pass

    def hook(g):
        g.mul_(2)
        raise OwnError("mine")

    def loop():
        m = mlp()
        m[0].weight.register_hook(hook)
        step(m)

    with pytest.raises(OwnError, match="mine"):
        loop()
    with watching() as report, pytest.raises(OwnError, match="mine"):
        loop()
    assert not [s for s in report.ledger.skipped if "error of the verifier" in s.why]


def test_results_are_the_same():
    def run():
        torch.manual_seed(0)
        m, log = mlp(), []
        m[0].weight.register_hook(lambda g: log.append(g.abs_().sum()))
        m[2].register_full_backward_hook(lambda _, before, after: (before[0] * 2,))
        step(m)
        return [*log, *[p.detach().clone() for p in m.parameters()]]

    plain = run()
    with watching():
        seen = run()
    assert all(torch.equal(a, b) for a, b in zip(plain, seen, strict=True))


def test_reductions_over_processes_write_into_what_they_are_given():
    """No line of the hook writes: what it calls does, and is called for that."""

    class Group:
        def all_reduce(self, g):
            g.div_(4)

    def loop():
        m, group = mlp(), Group()

        def reduced(g):
            group.all_reduce(g)

        m[0].weight.register_hook(reduced)
        step(m)

    assert [f.level for f in writes(observed(loop)[0])] == ["note"]


# --- corrections, in scripts

START = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
X = torch.randn(64, 6)
Y = X.sum(1, keepdim=True).sin()
"""
LOGGED = """
net, log = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 1)), []
net[0].weight.register_hook(lambda g: log.append(g.abs_().mean().item()))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
BOUNDED = """
def main():
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 1))

    def bound(grad):
        grad.clamp_(-1e-3, 1e-3)

    for p in net.parameters():
        p.register_hook(bound)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(4):
        opt.zero_grad()
        F.mse_loss(net(X), Y).backward()
        opt.step()


main()
"""
HALVED = """
class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def halve(self, g):
        g *= 0.5

    def run(self):
        for step in range(4):
            self.opt.zero_grad()
            h = self.net[:2](X)
            h.register_hook(self.halve)
            F.mse_loss(self.net[2](h), Y).backward()
            self.opt.step()


Trainer().run()
"""


@pytest.mark.skipif(not can_fork(), reason="processes are not copied here")
@pytest.mark.parametrize(
    ("text", "after"),
    [
        (LOGGED, "g.abs().mean()"),
        (BOUNDED, "return grad.clamp(-0.001, 0.001)"),
        (HALVED, "return g * 0.5"),
    ],
)
def test_a_correction_is_tried_and_right(tmp_path, text, after):
    corrected(tmp_path, START + text, "writes", after)
