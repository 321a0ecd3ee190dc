"""What losses expect: logits, probabilities, logarithms; and the axis along which these add up."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F  # noqa: N812

import chainrule as cr
from chainrule.ops import eager_kernels
from chainrule.verify.ledger import Ledger
from chainrule.verify.training import native_bus, native_parts
from tests.sampling import sampled_file
from tests.verify.training.test_training_right import observed

pytestmark = sampled_file(one_in=6)

X = torch.randn(24, 5, generator=torch.Generator().manual_seed(1))
Y = X[:, :3].argmax(1)
BITS = (X[:, :3] > 0).float()


def net(*last):
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3), *last)


def train(loss, model=None, steps=4):
    """Whose loss is a function of the model's output."""
    model = model or net()
    o = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        o.zero_grad()
        loss(model(X)).backward()
        o.step()


def one_of(k=3):
    return F.one_hot(Y, k).float()


class Mixture(nn.Module):
    """Its output is the logarithm of a mixture of probabilities."""

    def __init__(self):
        super().__init__()
        self.one, self.two = net(), net()

    def forward(self, x):
        return torch.log(0.5 * self.one(x).softmax(1) + 0.5 * self.two(x).softmax(1))


def focal(z):
    p = z.log_softmax(1)
    return F.nll_loss((1 - p.exp()) ** 2 * p, Y)


def policy(z):
    p = torch.softmax(z, 1)
    return -(p.gather(1, Y[:, None]).squeeze(1) / p.detach().gather(1, Y[:, None])[:, 0]).mean()


def contrast(z):
    """Both ways, along both axes of what is compared with what."""
    s = F.normalize(z, dim=1) @ F.normalize(z.detach().roll(1, 0), dim=1).T
    return -(s.log_softmax(0).diagonal().mean() + s.log_softmax(1).diagonal().mean())


def balanced(z):
    for k in (0, 1, 0, 1):
        z = z.log_softmax(k)
    return -(z * one_of()).sum()


WRONG = {
    "probabilities for nll": ("wrong_domain", lambda: train(lambda z: F.nll_loss(z.softmax(1), Y))),
    "a layer of softmax before NLLLoss": (
        "wrong_domain", lambda: train(lambda p: nn.NLLLoss()(p, Y), net(nn.Softmax(dim=1)))),
    "logits for nll": ("wrong_domain", lambda: train(lambda z: F.nll_loss(3 * z, Y))),
    "a softmax before cross entropy": (
        "wrong_domain", lambda: train(lambda z: F.cross_entropy(torch.softmax(z, -1), Y))),
    "the same with probabilities as the target": (
        "wrong_domain",
        lambda: train(lambda z: nn.CrossEntropyLoss()(F.softmax(z, dim=1), one_of()))),
    "a sigmoid before cross entropy": (
        "wrong_domain", lambda: train(lambda z: F.cross_entropy(z.sigmoid(), Y))),
    "a sigmoid before the loss of logits": (
        "wrong_domain",
        lambda: train(lambda p: nn.BCEWithLogitsLoss()(p, BITS), net(nn.Sigmoid()))),
    "one column of it": (
        "wrong_domain",
        lambda: train(lambda z: F.binary_cross_entropy_with_logits(
            torch.sigmoid(z)[:, 0], BITS[:, 0]))),
    "a sigmoid before the soft margin": (
        "wrong_domain", lambda: train(lambda z: F.soft_margin_loss(z.sigmoid(), 2 * BITS - 1))),
    "probabilities for a divergence": (
        "wrong_domain",
        lambda: train(lambda z: F.kl_div(z.softmax(1), one_of(), reduction="batchmean"))),
    "logarithms as the target of a divergence": (
        "wrong_domain",
        lambda: train(lambda z: F.kl_div(
            z.log_softmax(1), X[:, :3].log_softmax(1), reduction="batchmean"))),
    "rates for their logarithms": (
        "wrong_domain", lambda: train(lambda z: F.poisson_nll_loss(z.exp(), BITS))),
    "a softmax of a softmax": (
        "wrong_domain",
        lambda: train(lambda p: -(p.log_softmax(1) * one_of()).sum(), net(nn.Softmax(1)))),
    "probabilities for the logits of a distribution": (
        "wrong_domain",
        lambda: train(lambda p: -Categorical(logits=p).log_prob(Y).mean(), net(nn.Softmax(1)))),
    "over the batch, by a product": (
        "wrong_axis", lambda: train(lambda z: -(one_of() * z.log_softmax(0)).sum(1).mean())),
    "over the batch, by indices": (
        "wrong_axis",
        lambda: train(lambda z: -F.log_softmax(z, dim=0)[torch.arange(24), Y].mean())),
    "over the batch, gathered": (
        "wrong_axis", lambda: train(lambda z: -z.log_softmax(0).gather(1, Y[:, None]).mean())),
}  # fmt: skip
RIGHT = {
    "logits": lambda: train(lambda z: F.cross_entropy(z, Y)),
    "logarithms": lambda: train(lambda z: F.nll_loss(z.log_softmax(1), Y)),
    "a distribution of probabilities": lambda: train(
        lambda p: -Categorical(probs=p).log_prob(Y).mean(), net(nn.Softmax(1))),
    "a distribution of logits": lambda: train(lambda z: -Categorical(logits=z).log_prob(Y).mean()),
    "logarithms twice": lambda: train(lambda z: F.cross_entropy(z.log_softmax(1), Y)),
    "the logarithm of a softmax": lambda: train(
        lambda p: F.cross_entropy(p.log(), Y), net(nn.Softmax(1))),
    "a mixture": lambda: train(lambda z: F.nll_loss(z, Y), Mixture()),
    "focal": lambda: train(focal),
    "a policy": lambda: train(policy),
    "both ways": lambda: train(contrast),
    "balanced both ways": lambda: train(balanced),
    "a sigmoid and its own loss": lambda: train(
        lambda p: F.binary_cross_entropy(p, BITS), net(nn.Sigmoid())),
    "gates": lambda: train(
        lambda z: F.binary_cross_entropy_with_logits(z.sigmoid() * z, BITS)),
    "attention": lambda: train(
        lambda z: F.cross_entropy(z.softmax(0).T @ X[:, :3] + z.mean(0), torch.tensor([0, 1, 2]))),
    "a teacher": lambda: train(
        lambda z: F.kl_div(z.log_softmax(1), X[:, :3].softmax(1), reduction="batchmean")),
    "a teacher in logarithms": lambda: train(
        lambda z: F.kl_div(
            z.log_softmax(1), X[:, :3].log_softmax(1), reduction="sum", log_target=True)),
    "soft targets": lambda: train(lambda z: F.cross_entropy(z, X[:, :3].softmax(1))),
    "rates": lambda: train(lambda z: F.poisson_nll_loss(z.exp(), BITS, log_input=False)),
    "a mask along the other axis": lambda: train(
        lambda z: (z.softmax(0) * BITS).sum() - F.cross_entropy(z, Y)),
    "expected mistakes": lambda: train(lambda z: 1 - z.softmax(1)[torch.arange(24), Y].mean()),
    "rows in another order": lambda: train(
        lambda z: F.nll_loss(z.log_softmax(1)[torch.arange(23, -1, -1)], Y.flip(0))),
}  # fmt: skip


def said(found):
    return [f.name.code for f in found if f.level != "note" and f.subject == "the loss"]


@pytest.mark.parametrize("name", WRONG)
def test_what_a_loss_does_not_expect_is_found(name):
    torch.manual_seed(0)
    code, loop = WRONG[name]
    assert said(observed(loop)[0])[:1] == [code]


@pytest.mark.parametrize("name", RIGHT)
def test_what_it_expects_is_fine(name):
    torch.manual_seed(0)
    found, ledger = observed(RIGHT[name])
    assert not said(found)
    assert not [s.why for s in ledger.skipped if "error of the verifier" in s.why]


def own(loss, steps=4):
    """The same with chainrule's modules: findings of the loss."""
    parts = native_parts(native_bus())
    for part in parts:
        part.start()
    x, model = cr.tensor(X.numpy()), cr.nn.Linear(5, 3)
    o = cr.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        o.zero_grad()
        loss(model(x)).backward()
        o.step()
    for part in reversed(parts):
        part.stop()
    return said([f for part in parts for f in part.findings(Ledger())])


N = cr.nn.functional
Y_OWN, BITS_OWN = cr.tensor(Y.numpy()), cr.tensor(BITS.numpy().astype(np.float32))


@pytest.mark.parametrize("kernels", [False, True])
@pytest.mark.parametrize(
    ("loss", "codes"),
    [
        (lambda z: N.nll_loss(N.softmax(z), Y_OWN), ["wrong_domain"]),
        (lambda z: N.cross_entropy(N.softmax(z), Y_OWN), ["wrong_domain"]),
        (lambda z: N.binary_cross_entropy_with_logits(N.sigmoid(z), BITS_OWN), ["wrong_domain"]),
        (lambda z: N.nll_loss(N.log_softmax(z), Y_OWN), []),
        (lambda z: N.cross_entropy(z, Y_OWN), []),
        (lambda z: N.binary_cross_entropy(N.sigmoid(z), BITS_OWN), []),
    ],
)
def test_chainrules_own_losses_are_seen(loss, codes, kernels):
    assert X.shape[0] * 3 >= eager_kernels.LEAST
    with nullcontext() if kernels else cr.op_by_op():
        assert own(loss) == codes
