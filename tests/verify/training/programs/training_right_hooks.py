"""Training loops whose hooks only look, or return what they make of a gradient."""

from __future__ import annotations

import functools

import torch
from torch import nn

from tests.verify.training.programs.training_models import hooked, mlp

HOOKS = []


def right(f):
    HOOKS.append(f)
    return f


def on_weight(hook):
    m = mlp()
    m[0].weight.register_hook(hook)
    hooked(m)


@right
def it_looks():
    log = []
    on_weight(lambda g: log.append(g.abs().mean()))


@right
def it_returns_twice_the_gradient():
    on_weight(lambda g: g * 2)


@right
def it_returns_what_it_has_bounded_in_place():
    on_weight(lambda g: g.clamp_(-1e-3, 1e-3))


@right
def it_returns_the_gradient_times_a_mask_in_place():
    mask = (torch.rand(16, 4) > 0.5).float()

    def masked(g):
        g *= mask
        return g

    on_weight(masked)


@right
def it_changes_a_copy():
    log = []

    def look(g):
        mine = g.detach().clone()
        mine.mul_(2).sqrt_()
        log.append(mine)

    on_weight(look)


@right
def it_adds_to_what_is_its_own():
    total, rows = torch.zeros(16, 4), [0.0]

    def add(g):
        total.add_(g.square())
        rows[0] += g.norm().item()

    on_weight(add)


@right
def it_removes_what_is_not_a_number_where_there_is_none():
    def clean(g):
        g.nan_to_num_()
        g[torch.isinf(g)] = 0

    on_weight(clean)


@right
def it_bounds_what_is_small_anyhow():
    def bound(g):
        g.clamp_(-100, 100)

    on_weight(bound)


@right
def it_runs_when_the_gradient_is_there():
    m = mlp()

    def step(p):
        p.grad.mul_(0.5)

    m[0].weight.register_post_accumulate_grad_hook(step)
    hooked(m)


@right
def a_step_within_the_backward_pass():
    m = mlp()

    def step(p):
        with torch.no_grad():
            p.sub_(p.grad, alpha=0.1)
        p.grad = None

    m[0].weight.register_post_accumulate_grad_hook(step)
    hooked(m)


@right
def a_list_that_collects():
    log = []
    hooked(mlp(), log.append)
    assert len(log) == 3


@right
def a_partial_of_torch():
    on_weight(functools.partial(torch.mul, other=0.5))


class Reversed(nn.Module):
    def forward(self, x):
        x = x.view_as(x)
        x.register_hook(self.turned)
        return x

    def turned(self, g):
        return -g


@right
def the_gradient_is_turned():
    m = nn.Sequential(nn.Linear(4, 8), Reversed(), nn.Linear(8, 1))
    hooked(m)


@right
def modules_are_looked_at():
    m, log = mlp(), {}

    def look(module, grad_input, grad_output):
        log[id(module)] = [g.norm() for g in (*grad_input, *grad_output) if g is not None]

    for part in m[1:]:
        part.register_full_backward_hook(look)
    hooked(m)


@right
def a_module_gives_another_gradient_on():
    m = mlp()
    m[2].register_full_backward_hook(lambda module, before, after: (2 * before[0],))
    m[1].register_full_backward_pre_hook(lambda module, after: (after[0].clamp(-1, 1),))
    hooked(m)


@right
def a_module_gives_on_what_it_has_changed():
    m = mlp()

    def halve(module, grad_input, grad_output):
        grad_input[0].mul_(0.5)
        return grad_input

    m[2].register_full_backward_hook(halve)
    hooked(m)


@right
def several_gradients_at_once():
    m, log = mlp(), []
    torch.autograd.graph.register_multi_grad_hook(
        list(m.parameters()), lambda gs: log.append(sum([g.norm() for g in gs]))
    )
    hooked(m)


@right
def rows_of_a_table_are_looked_at():
    m, log = nn.Embedding(9, 4, sparse=True), []
    m.weight.register_hook(lambda g: log.append(g.coalesce().values().norm()))
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        m(torch.randint(0, 9, (5,))).square().mean().backward()
        o.step()


@right
def a_hook_that_fails():
    def fail(g):
        raise RuntimeError(g.shape)

    on_weight(fail)


@right
def a_hook_that_is_gone():
    m = mlp()
    m[0].weight.register_hook(lambda g: print(g.zero_())).remove()
    hooked(m)


@right
def a_penalty_of_gradients():
    log = []

    def loss(m, h):
        y = m[2](m[1](h)).square().mean()
        (g,) = torch.autograd.grad(y, h, create_graph=True)
        return y + g.square().sum()

    hooked(mlp(), lambda g: log.append(g.detach().abs().max()), loss)


@right
def it_drops_at_random_on_purpose():
    hooked(mlp(), lambda g: nn.functional.dropout(g, 0.5))


@right
def it_adds_noise_of_a_generator_of_its_own():
    generator = torch.Generator().manual_seed(1)
    on_weight(lambda g: g + 0.1 * torch.randn(g.shape, generator=generator))
