"""Training loops whose mistake shows later than at the first step, or in another function."""

from __future__ import annotations

import functools
import warnings

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.verify.training.programs.training_models import batch, mlp
from tests.verify.training.programs.training_wrong import wrong


def shapes(m, x):
    m.eval()
    with torch.no_grad():
        return m(x).shape


def normed():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def unwarned(loop):
    """PyTorch warns of some of these itself."""

    @functools.wraps(loop)
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loop()

    return run


@wrong("eval_mode")
def a_function_leaves_the_model_as_it_needed_it():
    m = normed()
    assert shapes(m, batch()[0])
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("graph_kept")
def a_state_is_carried_where_each_step_makes_new_leaves():
    w, h = (0.3 * torch.randn(4, 4)).requires_grad_(), torch.zeros(16, 4)
    for _ in range(5):
        x, _ = batch()
        h = torch.tanh(x + h @ w)
        (g,) = torch.autograd.grad(h.square().mean(), [w], retain_graph=True)
        w = (w - 0.1 * g).detach().requires_grad_()


@wrong("not_deterministic")
def a_line_search_over_a_function_that_changes():
    m, (x, y) = mlp(), batch()
    o = torch.optim.LBFGS(m.parameters(), max_iter=6, line_search_fn="strong_wolfe")

    def closure():
        o.zero_grad()
        loss = F.mse_loss(m(x + 0.2 * torch.randn_like(x)), y)
        loss.backward()
        return loss

    for _ in range(2):
        o.step(closure)


class Average:
    """Of numbers, one would think."""

    def __init__(self):
        self.mean = 0.0

    def update(self, value):
        self.mean = 0.9 * self.mean + 0.1 * value


@wrong("graph_kept")
def an_average_is_handed_a_loss_with_its_graph():
    m, average = mlp(), Average()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(5):
        x, y = batch()
        o.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        o.step()
        average.update(loss)


@wrong("broadcast")
@unwarned
def targets_without_an_axis():
    m, loss = mlp(), nn.MSELoss()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    x, y = batch()
    for _ in range(3):
        o.zero_grad()
        loss(m(x), y[:, 0]).backward()
        o.step()


@wrong("broadcast")
@unwarned
def predictions_without_an_axis():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    x, y = batch()
    for _ in range(3):
        o.zero_grad()
        F.huber_loss(m(x).squeeze(-1), target=y).backward()
        o.step()


@wrong("broadcast")
@unwarned
def maps_with_an_axis_of_channels():
    m = nn.Conv2d(1, 1, 3, padding=1)
    o = torch.optim.SGD(m.parameters(), 1e-2)
    x = torch.randn(4, 1, 6, 6)
    for _ in range(3):
        o.zero_grad()
        F.smooth_l1_loss(m(x), x[:, 0]).backward()
        o.step()
