"""Training loops with one mistake each, and what it is called."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tests.verify.training.programs.training_models import CNN, GPT, batch, classes, mlp

WRONG = []


def wrong(*codes):
    """The mistake's code, and others that would be right as well."""

    def note(f):
        WRONG.append((f, codes))
        return f

    return note


@wrong("not_reset")
def never_reset():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("not_reset")
def reset_once_before_the_loop():
    m = CNN()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    o.zero_grad()
    for _ in range(3):
        F.cross_entropy(m(torch.randn(4, 3, 12, 12)), torch.randint(0, 5, (4,))).backward()
        o.step()


@wrong("not_reset")
def reset_of_one_part_only():
    m = nn.Sequential(mlp(4, 8), nn.Linear(8, 1))
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for _ in range(3):
        x, y = batch()
        m[1].zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("not_reset")
def reset_of_another_optimizer():
    a, b = mlp(), mlp()
    oa, ob = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())
    for _ in range(3):
        x, y = batch()
        oa.zero_grad()
        F.mse_loss(a(x) + b(x), y).backward()
        oa.step()
        ob.step()


@wrong("not_reset")
def lbfgs_reset_outside_of_the_closure():
    m, (x, y) = mlp(), batch()
    o = torch.optim.LBFGS(m.parameters(), max_iter=4)

    def closure():
        loss = F.mse_loss(m(x), y)
        loss.backward()
        return loss

    for _ in range(2):
        o.zero_grad()
        o.step(closure)


@wrong("not_reset")
def gan_that_never_resets_the_critic():
    g, d = mlp(4, 4), mlp(4, 1)
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for _ in range(3):
        fake = g(torch.randn(16, 4))
        (d(fake.detach()).mean() - d(torch.randn(16, 4)).mean()).backward()
        od.step()
        og.zero_grad()
        (-d(fake).mean()).backward()
        og.step()


@wrong("not_reset")
def accumulation_without_any_reset():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for i in range(6):
        x, y = batch()
        (F.mse_loss(m(x), y) / 2).backward()
        if i % 2:
            o.step()


@wrong("reset_misplaced")
def reset_between_backward_and_step():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        loss = F.mse_loss(m(x), y)
        loss.backward()
        o.zero_grad()
        o.step()


@wrong("reset_misplaced")
def reset_to_zeros_between_backward_and_step():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        F.mse_loss(m(x), y).backward()
        m.zero_grad(set_to_none=False)
        o.step()


@wrong("reset_misplaced")
def reset_by_hand_between_backward_and_step():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        F.mse_loss(m(x), y).backward()
        for p in m.parameters():
            p.grad = None
        o.step()


@wrong("reset_misplaced")
def reset_at_the_end_of_a_closure():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)

    def closure():
        loss = F.mse_loss(m(x), y)
        loss.backward()
        o.zero_grad()
        return loss

    for _ in range(3):
        o.step(closure)


@wrong("reset_misplaced")
def reset_within_an_accumulation():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    for i in range(12):
        x, y = batch()
        o.zero_grad()
        (F.mse_loss(m(x), y) / 4).backward()
        if i % 4 == 3:
            o.step()


@wrong("accumulation")
def accumulation_not_divided():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for i in range(12):
        x, y = batch()
        F.mse_loss(m(x), y).backward()
        if i % 4 == 3:
            o.step()
            o.zero_grad()


@wrong("accumulation")
def accumulation_divided_by_the_batch_size():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for _ in range(3):
        o.zero_grad()
        for _ in range(3):
            x, y = classes()
            (F.cross_entropy(mlp_of(m, x), y) / 16).backward()
        o.step()


def mlp_of(m, x):
    return m(x).expand(-1, 3) * torch.arange(1.0, 4.0)


@wrong("accumulation")
def accumulation_divided_by_another_number():
    m = GPT()
    o = torch.optim.AdamW(m.parameters(), 1e-3)
    for i in range(8):
        t = torch.randint(0, 31, (2, 9))
        loss = F.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        loss = loss / 8
        loss.backward()
        if i % 4 == 3:
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
            o.zero_grad()


@wrong("accumulation")
def accumulation_with_a_rest_that_leaks():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for _ in range(3):  # epochs of six batches: two are left over
        for i in range(6):
            x, y = batch()
            (F.mse_loss(m(x), y) / 4).backward()
            if i % 4 == 3:
                o.step()
                o.zero_grad()


@wrong("accumulation")
def scaled_accumulation_not_divided():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for i in range(9):
        x, y = batch()
        scaler.scale(F.mse_loss(m(x), y)).backward()
        if i % 3 == 2:
            scaler.step(o)
            scaler.update()
            o.zero_grad()


@wrong("clip_scaled")
def clipped_before_unscaling():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        scaler.scale(F.mse_loss(m(x), y)).backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(o)
        scaler.update()


@wrong("not_optimized")
def model_replaced_after_the_optimizer():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    m = mlp()
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        m.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("not_optimized")
def head_replaced_after_the_optimizer():
    m = nn.Sequential(mlp(4, 8), nn.Linear(8, 10))
    o = torch.optim.SGD(m.parameters(), 0.1)
    m[1] = nn.Linear(8, 3)
    for _ in range(3):
        x, y = classes()
        m.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.layers = [nn.Linear(8, 8) for _ in range(2)]
        self.last = nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.first(x))
        for layer in self.layers:
            h = torch.relu(layer(h))
        return self.last(h)


@wrong("not_optimized")
def layers_in_a_plain_list():
    m = Listed()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 1)
        self.scale = torch.ones(1, requires_grad=True)

    def forward(self, x):
        return self.l(x) * self.scale


@wrong("not_optimized")
def tensor_that_is_no_parameter():
    m = Scaled()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("not_optimized")
def last_layer_left_out():
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    o = torch.optim.SGD([*m[0].parameters(), *m[2].parameters()], 0.1)
    for _ in range(3):
        x, y = batch()
        m.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("not_optimized")
def block_left_out_in_the_middle():
    m = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(4, 4), nn.Tanh())])
    some = [p for name, p in m.named_parameters() if not name.startswith("2.")]
    o = torch.optim.SGD(some, 0.1)
    for _ in range(3):
        x, _y = batch()
        m.zero_grad()
        F.mse_loss(m(x), x.sin()).backward()
        o.step()


@wrong("no_gradient")
def optimizer_of_another_model():
    m, other = mlp(), mlp()
    other(batch()[0])
    o = torch.optim.SGD(other.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        m.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("graph_kept")
def losses_kept_in_a_list():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    losses = []
    for _ in range(4):
        loss = F.mse_loss(m(x), y)
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(loss)


@wrong("graph_kept")
def running_sum_of_losses():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    total = 0
    for _ in range(4):
        loss = F.mse_loss(m(x), y)
        o.zero_grad()
        loss.backward()
        o.step()
        total += loss


@wrong("graph_kept")
def outputs_kept_in_a_dict():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    log = {"out": []}
    for _ in range(4):
        out = m(x)
        o.zero_grad()
        F.mse_loss(out, y).backward()
        o.step()
        log["out"].append(out)


@wrong("graph_kept")
def validation_losses_with_graph():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    history = []
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()
        history.append(F.mse_loss(m(x), y))


@wrong("graph_kept")
def hidden_state_carried_over():
    m = nn.GRU(4, 8, batch_first=True)
    o = torch.optim.SGD(m.parameters(), 0.1)
    h = torch.zeros(1, 8, 8)
    for _ in range(3):
        out, h = m(torch.randn(8, 5, 4), h)
        o.zero_grad()
        out.square().mean().backward()
        o.step()


@wrong("graph_kept")
def hidden_state_carried_over_without_an_optimizer():
    m = nn.GRU(4, 8, batch_first=True)
    h = torch.zeros(1, 8, 8)
    for _ in range(4):
        out, h = m(torch.randn(8, 5, 4), h)
        m.zero_grad()
        out.square().mean().backward(retain_graph=True)
        for p in m.parameters():
            p.data.add_(p.grad, alpha=-0.1)


@wrong("graph_kept")
def losses_kept_without_an_optimizer():
    w, kept = torch.randn(4, 1, requires_grad=True), []
    for _ in range(5):
        x, y = batch()
        loss = F.mse_loss(x @ w, y)
        w.grad = None
        loss.backward()
        kept.append(loss)
        with torch.no_grad():
            w -= 0.1 * w.grad


@wrong("graph_kept")
def hidden_state_carried_over_with_retained_graph():
    first, last = nn.Linear(8, 8), nn.Linear(8, 1)
    o = torch.optim.SGD(last.parameters(), 0.1)
    h = torch.zeros(4, 8)
    for _ in range(4):
        h = h + first(torch.randn(4, 8))
        o.zero_grad()
        (h.mean() + last(torch.randn(4, 8)).square().mean()).backward(retain_graph=True)
        o.step()


@wrong("graph_kept")
def state_kept_on_the_model():
    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.memory = torch.zeros(16, 4)

        def forward(self, x):
            self.memory = 0.5 * self.memory + self.l(x)
            return self.memory

    m = Memory()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y.expand(16, 4)).backward(retain_graph=True)
        o.step()


@wrong("first_bad")
def log_of_zero():
    m, (x, y) = mlp(4, 3), classes()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        p = torch.relu(m(x))
        p = p / p.sum(1, keepdim=True)
        o.zero_grad()
        F.nll_loss(torch.log(p), y).backward()
        o.step()


@wrong("first_bad")
def square_root_at_zero():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        out = m(x)
        o.zero_grad()
        (out - y + torch.sqrt((out - out).square())).square().mean().backward()
        o.step()


@wrong("first_bad")
def data_with_nan():
    m, (x, y) = mlp(), batch()
    x[3, 1] = torch.nan
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("first_bad")
def exponential_overflow():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        e = torch.exp(1000 * m(x))
        o.zero_grad()
        F.mse_loss(e / e.sum(), y).backward()
        o.step()


@wrong("first_bad")
def fully_masked_row():
    q = nn.Linear(8, 8)
    o = torch.optim.Adam(q.parameters(), 1e-3)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(0)
    for _ in range(3):
        h = q(torch.randn(4, 6, 8))
        w = (h @ h.transpose(1, 2)).masked_fill(mask, -torch.inf).softmax(-1)
        o.zero_grad()
        (w @ h).square().mean().backward()
        o.step()


def deep(act, n=10, w=32, std=None):
    layers = [part for _ in range(n) for part in (nn.Linear(w, w), act())]
    m = nn.Sequential(*layers, nn.Linear(w, 1))
    for p in m.parameters():
        if std and p.dim() == 2:
            nn.init.normal_(p, std=std)
    o = torch.optim.SGD(m.parameters(), 1e-20)
    for _ in range(3):
        x = torch.randn(64, w)
        o.zero_grad()
        F.mse_loss(m(x), x[:, :1]).backward()
        o.step()


@wrong("vanishing")
def ten_sigmoid_layers():
    deep(nn.Sigmoid)


@wrong("vanishing")
def small_initial_weights():
    deep(nn.Tanh, 8, std=0.01)


@wrong("vanishing")
def saturated_tanh():
    deep(nn.Tanh, 6, std=0.02)


@wrong("exploding")
def large_initial_weights():
    deep(nn.ReLU, 10, std=0.8)


@wrong("dead")
def relu_with_a_large_negative_bias():
    m = mlp()
    nn.init.constant_(m[0].bias, -50)
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        x, y = batch(64)
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("not_reset")
def manual_sgd_never_reset():
    w = torch.randn(4, 1, requires_grad=True)
    x, y = batch()
    for _ in range(4):
        F.mse_loss(x @ w, y).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad


@wrong("not_reset")
def manual_sgd_data_never_reset():
    m, (x, y) = mlp(), batch()
    for _ in range(4):
        F.mse_loss(m(x), y).backward()
        for p in m.parameters():
            p.data -= 0.01 * p.grad


@wrong("not_optimized")
def first_layers_left_out():
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    o = torch.optim.SGD(m[2].parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        m.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@wrong("first_bad")
def gradient_that_overflows():
    w = nn.Parameter(torch.full((4,), 1e-20))
    o = torch.optim.SGD([w], 0.0)
    for _ in range(3):
        o.zero_grad()
        (w * 1e30 * 1e20).sum().backward()
        o.step()


@wrong("accumulation")
def accumulation_not_divided_with_targets_that_are_cut():
    m = mlp(4, 4)
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for i in range(12):
        x, _ = batch()
        z = m(x)
        F.mse_loss(m(x + 0.1 * torch.randn_like(x)), z.detach()).backward()
        if i % 4 == 3:
            o.step()
            o.zero_grad()


@wrong("detached")
def copies_that_are_adapted_through_data():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        o.zero_grad()
        total = torch.zeros(())
        for _ in range(2):
            fast, (x, y) = copy.deepcopy(m), batch()
            grads = torch.autograd.grad(F.mse_loss(fast(x), y), list(fast.parameters()))
            for p, g in zip(fast.parameters(), grads, strict=True):
                p.data -= 0.1 * g
            total = total + F.mse_loss(fast(x), y)
        total.backward()
        o.step()


# --- hooks that write into the gradient that they are given


# --- a whole model that no optimizer has


def wide(x):
    return x.sum(1, keepdim=True).sin().expand(-1, 40)


def distill(student, adapter):
    """Three steps of the student alone, through an adapter to wide targets."""
    o = torch.optim.AdamW(student.parameters())
    for _ in range(3):
        x, _y = batch()
        o.zero_grad()
        F.mse_loss(adapter(student(x)), wide(x)).backward()
        o.step()


@wrong("not_optimized")
def adapter_between_student_and_loss():
    distill(mlp(4, 12), nn.Linear(12, 40))


class Distilled:
    def __init__(self):
        self.student = mlp(4, 12)
        self.o = torch.optim.SGD(self.student.parameters(), 0.1)
        self.regressor = nn.Sequential(nn.Conv1d(12, 20, 1), nn.BatchNorm1d(20), nn.Flatten())

    def run(self):
        for _ in range(3):
            x, _y = batch()
            self.o.zero_grad()
            out = self.regressor(self.student(x)[:, :, None].expand(-1, -1, 2))
            F.mse_loss(out, wide(x)).backward()
            self.o.step()


@wrong("not_optimized")
def regressor_of_a_trainer():
    Distilled().run()


class Margin(nn.Module):
    """A loss with a weight of its own."""

    def __init__(self, classes, width):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, width))

    def forward(self, h, y):
        return F.cross_entropy(F.normalize(h) @ F.normalize(self.centers).mT * 8, y)


@wrong("not_optimized")
def loss_with_a_weight_of_its_own():
    m, criterion = mlp(4, 16), Margin(3, 16)
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        x, y = classes()
        o.zero_grad()
        criterion(m(x), y).backward()
        o.step()


class Uncertain(nn.Module):
    def __init__(self):
        super().__init__()
        self.logs = nn.Parameter(torch.zeros(2))

    def forward(self, a, b):
        return ((-self.logs).exp() * torch.stack([a, b]) + self.logs).sum()


@wrong("not_optimized")
def weights_of_two_losses():
    m, weigh = mlp(4, 4), Uncertain()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        h = m(x)
        weigh(F.mse_loss(h[:, :1], y), h[:, 1:].abs().mean()).backward()
        o.step()


@wrong("not_optimized")
def adapter_of_which_a_part_is_frozen():
    bridge = nn.Linear(12, 40)
    bridge.bias.requires_grad_(False)
    distill(mlp(4, 12), bridge)


@wrong("not_optimized")
def adapter_of_which_the_size_is_shown():
    student, shim = mlp(4, 12), nn.LSTM(12, 40, batch_first=True)
    sum(p.numel() for p in shim.parameters())
    o = torch.optim.AdamW([{"params": student.parameters(), "lr": 1e-3}])
    for _ in range(3):
        x, _y = batch()
        o.zero_grad()
        F.mse_loss(shim(student(x))[0], wide(x)).backward()
        o.step()
