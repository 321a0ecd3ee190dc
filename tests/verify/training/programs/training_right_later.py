"""Training loops that are right, beside those of `training_wrong_later`."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.verify.training.programs.training_models import batch, mlp
from tests.verify.training.programs.training_wrong_later import normed, shapes, unwarned

LATER = []


def right(f):
    LATER.append(f)
    return f


def fit(m, steps=3, lr=0.01):
    o = torch.optim.SGD(m.parameters(), lr)
    for _ in range(steps):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def who_trains_puts_the_model_back():
    m = normed()
    assert shapes(m, batch()[0])
    m.train()
    fit(m)


@right
def who_trains_wants_running_statistics():
    m = normed()
    assert shapes(m, batch()[0])
    m.eval()  # They were learnt before.
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def the_caller_wants_running_statistics():
    m = normed()
    m.eval()
    assert shapes(m, batch()[0])
    fit(m)


@right
def a_state_is_cut_where_each_step_makes_new_leaves():
    w, h = (0.3 * torch.randn(4, 4)).requires_grad_(), torch.zeros(16, 4)
    for _ in range(5):
        x, _ = batch()
        h = torch.tanh(x + h.detach() @ w)
        (g,) = torch.autograd.grad(h.square().mean(), [w])
        w = (w - 0.1 * g).detach().requires_grad_()


@right
def two_models_whose_derivatives_are_asked_for_in_turn():
    a, b = mlp(), mlp()
    for _ in range(4):
        x, y = batch()
        for m in (a, b):
            grads = torch.autograd.grad(F.mse_loss(m(x), y), list(m.parameters()))
            with torch.no_grad():
                for p, g in zip(m.parameters(), grads, strict=True):
                    p -= 0.1 * g


@right
def a_recurrent_layer_of_usual_weights():
    m, read = nn.RNN(2, 24, batch_first=True), nn.Linear(24, 1)
    o = torch.optim.Adam([*m.parameters(), *read.parameters()], 1e-3)
    for _ in range(3):
        x = torch.rand(16, 50, 2)
        o.zero_grad()
        F.mse_loss(read(m(x)[1][0]), x[:, :2, 0].sum(1, keepdim=True)).backward()
        o.step()


@right
def a_loss_that_comes_to_its_end():
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    o = torch.optim.SGD(m.parameters(), 0.5)
    for _ in range(12):
        x, _ = batch()
        o.zero_grad()
        F.relu(0.1 - m(x)).mean().backward()  # A hinge: nothing is left to do.
        o.step()


@right
def experts_of_which_the_last_steps_use_one():
    gate, experts = nn.Linear(4, 2), nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])
    o = torch.optim.SGD([*experts.parameters(), *gate.parameters()], 0.01)
    for k in range(8):
        x, y = batch()
        o.zero_grad()
        share = gate(x).softmax(1)
        chosen = torch.tensor([1.0, 1.0 if k < 3 else 0.0])
        made = torch.cat([e(x) for e in experts], dim=1) * chosen
        F.mse_loss((share * made).sum(1, keepdim=True), y).backward()
        o.step()


@right
def a_line_search_over_noise_that_was_drawn_before():
    m, (x, y) = mlp(), batch()
    o = torch.optim.LBFGS(m.parameters(), max_iter=6, line_search_fn="strong_wolfe")
    for _ in range(2):
        noise = 0.2 * torch.randn_like(x)

        def closure(noise=noise):
            o.zero_grad()
            loss = F.mse_loss(m(x + noise), y)
            loss.backward()
            return loss

        o.step(closure)


def trained(m, loss):
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        loss(m(x), y).backward()
        o.step()


@right
def shapes_that_are_equal_or_a_number():
    trained(mlp(), nn.MSELoss())
    trained(mlp(), lambda out, y: F.huber_loss(out[:, 0], y[:, 0]))
    trained(mlp(), lambda out, y: (out - y.mean()).pow(2).mean())


@right
@unwarned
def one_target_for_all_rows():
    trained(mlp(4, 3), lambda out, y: F.mse_loss(out, torch.tensor([0.1, -0.2, 0.3])))


@right
def each_is_ranked_against_each():
    trained(mlp(), lambda out, y: (out[:, 0] - out - (y[:, 0] - y)).clamp(min=0).mean())


@right
def quantiles_of_one_target():
    levels = torch.tensor([0.1, 0.5, 0.9])

    def pinball(out, y):
        off = y - out
        return torch.maximum(levels * off, (levels - 1) * off).mean()

    trained(mlp(4, 3), pinball)


@right
def predictions_meet_a_grid():
    grid = torch.linspace(-1, 1, 5)
    trained(mlp(), lambda out, y: ((out - grid) ** 2).amin(1).mean() + F.mse_loss(out, y))


@right
def gradients_of_two_losses_are_joined_by_hand():
    m = mlp()
    params = list(m.parameters())
    o = torch.optim.SGD(params, 1e-2)
    for _ in range(3):
        x, y = batch()
        out = m(x)
        one = torch.autograd.grad(F.mse_loss(out, y), params, retain_graph=True)
        two = torch.autograd.grad(out.abs().mean(), params)
        for p, g, h in zip(params, one, two, strict=True):
            p.grad = g + 0.1 * h
        o.step()


@right
def gradients_are_given_as_they_come():
    m = mlp()
    params = list(m.parameters())
    o = torch.optim.Adam(params)
    for _ in range(3):
        x, y = batch()
        gradients = torch.autograd.grad(F.mse_loss(m(x), y), params)
        for p, g in zip(params, gradients, strict=True):
            p.grad = g
        o.step()
