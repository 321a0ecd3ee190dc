"""More training loops with a mistake: losses counted twice, layers that get nothing, noise."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.verify.training.programs.training_models import Branched, batch, mlp
from tests.verify.training.programs.training_wrong import wrong


@wrong("graph_kept")
def a_running_total_that_is_differentiated():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        total = 0.0
        for _ in range(3):
            x, y = batch()
            loss = F.mse_loss(m(x), y)
            total = total + loss / 3
            total.backward(retain_graph=True)
        o.step()


@wrong("graph_kept")
def a_part_and_the_whole_without_a_reset_between():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        x, y = batch()
        fit = F.mse_loss(m(x), y)
        fit.backward(retain_graph=True)
        (fit + 1e-2 * m[0].weight.square().sum()).backward()
        o.step()


@wrong("reset_misplaced")
def half_of_a_critics_loss_is_thrown_away():
    maker, critic = mlp(2, 4), mlp()
    a, b = [torch.optim.Adam(m.parameters()) for m in (maker, critic)]
    for _ in range(3):
        critic.zero_grad()
        F.softplus(-critic(batch()[0])).mean().backward()
        fake = maker(torch.randn(16, 2))
        critic.zero_grad()
        F.softplus(critic(fake.detach())).mean().backward()
        b.step()
        maker.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        a.step()


class Recall(nn.Module):
    """A first value, then a recurrence that is read at its end."""

    def __init__(self, gain):
        super().__init__()
        self.first, self.turn, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        nn.init.orthogonal_(self.turn.weight, gain)

    def forward(self, x, turns):
        h = torch.tanh(self.first(x))
        for _ in range(turns):
            h = torch.tanh(self.turn(h))
        return self.out(h)


def recall(gain, turns=40):
    m = Recall(gain)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x, turns), y).backward()
        o.step()


@wrong("not_optimized")
def a_head_that_is_reset_with_the_others_and_not_trained():
    body, head = mlp(4, 6), nn.Linear(6, 40)
    o = torch.optim.Adam(body.parameters())
    for _ in range(4):
        for m in (body, head):
            m.zero_grad()
        F.cross_entropy(head(body(batch()[0])), torch.randint(0, 40, (16,))).backward()
        o.step()


def pixels(scale, bias=0.0):
    """Inputs up to `scale`, that are not brought to mean 0 and deviation 1."""
    m = nn.Sequential(nn.Linear(30, 12), nn.Sigmoid(), nn.Linear(12, 1))
    nn.init.constant_(m[0].bias, bias)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(3):
        x = scale * torch.rand(48, 30)
        o.zero_grad()
        m(x).square().mean().backward()
        o.step()


@wrong("graph_kept")
def hidden_state_carried_over_by_derivatives():
    w, u = [torch.randn(6, 6).mul_(0.2).requires_grad_() for _ in range(2)]
    h = torch.zeros(1, 6)
    for _ in range(6):
        for _ in range(3):
            h = torch.tanh(torch.randn(1, 6) @ u + h @ w)
        grads = torch.autograd.grad(h.square().mean(), [w, u], retain_graph=True)
        for p, g in zip([w, u], grads, strict=True):
            p.data -= 0.1 * g


@wrong("stale")
def a_step_between_the_loss_and_its_backward_pass():
    m = nn.Linear(4, 1)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for _ in range(4):
        x, y = batch()
        loss = F.mse_loss(m(x), y)
        o.step()
        o.zero_grad()
        loss.backward()


@wrong("not_reset")
def weights_are_reset_by_hand_and_biases_are_not():
    m = mlp()
    for _ in range(4):
        x, y = batch()
        F.mse_loss(m(x), y).backward()
        with torch.no_grad():
            for p in m.parameters():
                p.add_(p.grad, alpha=-0.1)
                if p.dim() > 1:
                    p.grad.zero_()


@wrong("first_bad")
def a_scale_by_hand_that_is_too_large():
    m = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).half()
    for _ in range(3):
        x, y = batch()
        m.zero_grad()
        ((m(x.half()).float() - y).square().mean() * 2.0**20).backward()
        with torch.no_grad():
            for p in m.parameters():
                p.sub_(p.grad / 2.0**20, alpha=0.05)


@wrong("not_optimized")
def a_temperature_that_no_optimizer_has():
    m, scale = mlp(), nn.Parameter(torch.tensor(0.5))
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.l1_loss(m(x) / scale, y).backward()
        o.step()


class Forgotten(Branched):
    def forward(self, x):
        left, right = self.a(x), None
        for _ in range(2):
            right = self.b(x)  # noqa: F841
        return self.out(left.tanh())


@wrong("clip_idle")
def a_clip_between_two_losses():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.1)
        m[0].weight.square().sum().backward()
        o.step()


@wrong("clip_idle")
def a_clip_of_what_nobody_trains():
    m, frozen = mlp(), mlp().requires_grad_(False)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x) - frozen(x), y).backward()
        nn.utils.clip_grad_norm_(frozen.parameters(), 0.1)
        o.step()


@wrong("not_reset")
def the_maker_leaves_gradients_in_the_critic():
    maker, critic = mlp(2, 4), mlp()
    a, b = [torch.optim.Adam(m.parameters()) for m in (maker, critic)]
    for _ in range(4):
        fake = maker(torch.randn(16, 2))
        told = F.softplus(-critic(batch()[0])) + F.softplus(critic(fake.detach()))
        told.mean().backward()
        b.step()
        b.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        a.step()
        a.zero_grad()


@wrong("eval_mode")
def nobody_comes_back_from_the_validation():
    m = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    o = torch.optim.SGD(m.parameters(), 0.01)
    m.train()
    for _ in range(2):
        for _ in range(2):
            x, y = batch()
            o.zero_grad()
            F.mse_loss(m(x), y).backward()
            o.step()
        m.eval()
        with torch.no_grad():
            m(batch()[0])


@wrong("not_reset")
def the_maker_leaves_what_two_passes_have_made():
    maker, critic = mlp(2, 4), mlp()
    a, b = [torch.optim.Adam(m.parameters()) for m in (maker, critic)]
    for _ in range(4):
        told = F.softplus(-critic(batch()[0])) + F.softplus(
            critic(maker(torch.randn(16, 2)).detach())
        )
        told.mean().backward()
        b.step()
        b.zero_grad()
        for _ in range(2):
            (F.softplus(-critic(maker(torch.randn(16, 2)))).mean() / 2).backward()
        a.step()
        a.zero_grad()
