"""More training loops that are right: architectures, reinforcement learning, unusual optimizers."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset

from tests.verify.training.programs.training_models import (
    CNN,
    RNN,
    Branched,
    batch,
    classes,
    mlp,
    train,
)
from tests.verify.training.programs.training_wrong_more import pixels, recall

MORE = []


def right(f):
    MORE.append(f)
    return f


def fit(m, data, loss=F.mse_loss, steps=3, lr=1e-3, optimizer=torch.optim.Adam):
    o = optimizer(m.parameters(), lr)
    for _ in range(steps):
        x, y = data()
        o.zero_grad()
        loss(m(x), y).backward()
        o.step()


def same(n, w):
    def draw():
        x = torch.randn(n, w)
        return x, x

    return draw


class ResBlock(nn.Module):
    def __init__(self, c, k, stride=1):
        super().__init__()
        self.a, self.n = nn.Conv2d(c, k, 3, stride, 1, bias=False), nn.BatchNorm2d(k)
        self.b, self.m = nn.Conv2d(k, k, 3, 1, 1, bias=False), nn.BatchNorm2d(k)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Sequential(nn.Conv2d(c, k, 1, stride, bias=False), nn.BatchNorm2d(k))

    def forward(self, x):
        y = self.m(self.b(self.relu(self.n(self.a(x)))))
        y += self.down(x)
        return self.relu(y)


@right
def made_under_observation():
    """A row of the table is set to 0 without a graph: of such a view PyTorch says nothing."""
    m = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 2))
    fit(m, lambda: (torch.randint(0, 9, (5, 3)), torch.randint(0, 2, (5,))), F.cross_entropy)


@right
def resnet():
    m = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), ResBlock(8, 8),
        ResBlock(8, 16, 2), ResBlock(16, 16), ResBlock(16, 32, 2), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip
    data = lambda: (torch.randn(8, 3, 16, 16), torch.randint(0, 5, (8,)))
    fit(m, data, F.cross_entropy, optimizer=torch.optim.SGD, lr=0.1)


@right
def unet():
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (
                nn.Conv2d(i, o, 3, 1, 1) for i, o in ((1, 8), (8, 16), (24, 8))
            )
            self.out = nn.Conv2d(8, 1, 1)

        def forward(self, x):
            a = self.a(x).relu()
            b = self.b(F.max_pool2d(a, 2)).relu()
            return self.out(self.c(torch.cat([F.interpolate(b, scale_factor=2), a], 1)).relu())

    fit(UNet(), lambda: (torch.randn(4, 1, 16, 16), torch.randn(4, 1, 16, 16)))


@right
def post_norm_transformer():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, batch_first=True)
    m = nn.Sequential(nn.TransformerEncoder(layer, 8), nn.Linear(16, 16))
    fit(m, lambda: (torch.randn(4, 6, 16), torch.randn(4, 6, 16)))


@right
def deep_network_with_batch_norm():
    parts = [p for _ in range(16) for p in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU())]
    fit(nn.Sequential(*parts), same(64, 32))


@right
def deep_sigmoid_with_batch_norm():
    parts = [p for _ in range(6) for p in (nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Sigmoid())]
    fit(nn.Sequential(*parts), same(64, 32))


@right
def deep_tanh_xavier():
    m = nn.Sequential(*[p for _ in range(8) for p in (nn.Linear(32, 32), nn.Tanh())])
    for p in m.parameters():
        if p.dim() == 2:
            nn.init.xavier_normal_(p, 5 / 3)
    fit(m, same(64, 32))


@right
def self_normalising():
    m = nn.Sequential(*[p for _ in range(10) for p in (nn.Linear(32, 32), nn.SELU())])
    for p in m.parameters():
        if p.dim() == 2:
            nn.init.kaiming_normal_(p, nonlinearity="linear")
    fit(m, same(64, 32))


@right
def default_mlps():
    for n in (1, 2, 4, 6):
        m = nn.Sequential(*[p for _ in range(n) for p in (nn.Linear(16, 16), nn.ReLU())])
        fit(nn.Sequential(m, nn.Linear(16, 16)), same(32, 16))


@right
def lenet_with_sigmoids():
    m = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5),
        nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Sigmoid(),
        nn.Linear(120, 10),
    )  # fmt: skip
    data = lambda: (torch.randn(8, 1, 28, 28), torch.randint(0, 10, (8,)))
    fit(m, data, F.cross_entropy, optimizer=torch.optim.SGD, lr=0.5)


@right
def vgg_like():
    sizes = ((3, 8), (8, 8), (8, 16), (16, 16))
    body = [p for i, o in sizes for p in (nn.Conv2d(i, o, 3, 1, 1), nn.ReLU())]
    head = [nn.MaxPool2d(4), nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Dropout()]
    m = nn.Sequential(*body, *head, nn.Linear(32, 5))
    fit(m, lambda: (torch.randn(8, 3, 16, 16), torch.randint(0, 5, (8,))), F.cross_entropy)


@right
def bidirectional_lstm_of_packed_sequences():
    e, m, l = nn.Embedding(20, 8), nn.LSTM(8, 8, 2, bidirectional=True), nn.Linear(16, 2)
    o = torch.optim.Adam([*e.parameters(), *m.parameters(), *l.parameters()])
    for _ in range(3):
        t, n = torch.randint(0, 20, (7, 4)), torch.tensor([7, 5, 3, 2])
        _, (h, _) = m(nn.utils.rnn.pack_padded_sequence(e(t), n))
        o.zero_grad()
        F.cross_entropy(l(torch.cat([h[-1], h[-2]], 1)), torch.randint(0, 2, (4,))).backward()
        o.step()


@right
def teacher_forcing():
    enc, dec, out = nn.GRUCell(4, 8), nn.GRUCell(4, 8), nn.Linear(8, 4)
    o = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *out.parameters()])
    for _ in range(4):
        x = torch.randn(5, 6, 4)
        h, loss = torch.zeros(6, 8), 0
        for t in range(5):
            h = enc(x[t], h)
        y = torch.zeros(6, 4)
        for t in range(5):
            h = dec(y, h)
            y = out(h)
            loss += F.mse_loss(y, x[4 - t])
            y = x[4 - t] if t % 2 else y.detach()
        o.zero_grad()
        loss.backward()
        o.step()


@right
def loader_and_epochs():
    data = TensorDataset(*batch(40))
    m, o = mlp(), None
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(2):
        total, n = 0.0, 0
        for x, y in DataLoader(data, 16, shuffle=True):
            o.zero_grad()
            loss = F.mse_loss(m(x), y)
            loss.backward()
            o.step()
            total, n = total + loss.item() * len(x), n + len(x)


@right
def accumulation_with_a_smaller_rest():
    data = DataLoader(TensorDataset(*batch(40)), 8)
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(2):
        for i, (x, y) in enumerate(data):
            (F.mse_loss(m(x), y) / 2).backward()
            if i % 2 or i + 1 == len(data):
                o.step()
                o.zero_grad()


@right
def accumulation_whose_rest_is_dropped():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        for i in range(5):
            x, y = batch()
            (F.mse_loss(m(x), y) / 2).backward()
            if i % 2:
                o.step()
                o.zero_grad()


@right
def weight_and_spectral_norm():
    norm = nn.utils.parametrizations
    last = norm.spectral_norm(nn.Linear(8, 1))
    m = nn.Sequential(norm.weight_norm(nn.Linear(4, 8)), nn.ReLU(), last)
    fit(m, batch)


@right
def gradient_given_by_hand():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        gs = torch.autograd.grad(F.mse_loss(m(x), y), list(m.parameters()))
        for p, g in zip(m.parameters(), gs, strict=True):
            p.grad = g
        o.step()


@right
def gradients_per_sample():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        ps = {k: p.detach() for k, p in m.named_parameters()}
        f = lambda ps, x, y: F.mse_loss(torch.func.functional_call(m, ps, (x[None],)), y[None])
        gs = torch.func.vmap(torch.func.grad(f), in_dims=(None, 0, 0))(ps, x, y)
        for k, p in m.named_parameters():
            norm = gs[k].flatten(1).norm(dim=1).clamp(min=1)
            p.grad = (gs[k] / norm.reshape(-1, *[1] * p.dim())).mean(0)
        o.step()


@right
def backward_for_some_inputs_only():
    a, b = mlp(4, 4), mlp(4, 1)
    o = torch.optim.SGD(b.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(b(a(x)), y).backward(inputs=list(b.parameters()))
        o.step()


@right
def cycle_gan_with_switched_critic():
    g, d = mlp(4, 4), mlp(4, 1)
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for _ in range(3):
        x, z = torch.randn(16, 4), torch.randn(16, 4)
        d.requires_grad_(False)
        og.zero_grad()
        fake = g(z)
        ((d(fake) - 1).square().mean() + 10 * F.l1_loss(fake, z)).backward()
        og.step()
        d.requires_grad_(True)
        od.zero_grad()
        loss = (d(x) - 1).square().mean() + d(fake.detach()).square().mean()
        (0.5 * loss).backward()
        od.step()


@right
def soft_actor_critic():
    actor, q = mlp(4, 2), mlp(5, 1)
    goal = copy.deepcopy(q)
    log_alpha = torch.zeros(1, requires_grad=True)
    oa, oq = torch.optim.Adam(actor.parameters()), torch.optim.Adam(q.parameters())
    ol = torch.optim.Adam([log_alpha])

    def act(s):
        mu, log_std = actor(s).chunk(2, -1)
        dist = torch.distributions.Normal(mu, log_std.clamp(-5, 2).exp())
        a = dist.rsample()
        return a.tanh(), (dist.log_prob(a) - (1 - a.tanh() ** 2 + 1e-6).log()).sum(-1, keepdim=True)

    for _ in range(4):
        s, a, r, s2 = torch.randn(16, 4), torch.randn(16, 1), torch.randn(16, 1), torch.randn(16, 4)
        with torch.no_grad():
            a2, lp2 = act(s2)
            y = r + 0.99 * (goal(torch.cat([s2, a2], 1)) - log_alpha.exp() * lp2)
        oq.zero_grad()
        F.mse_loss(q(torch.cat([s, a], 1)), y).backward()
        oq.step()
        pi, lp = act(s)
        oa.zero_grad()
        (log_alpha.exp().detach() * lp - q(torch.cat([s, pi], 1))).mean().backward()
        oa.step()
        ol.zero_grad()
        (-(log_alpha * (lp + 1).detach())).mean().backward()
        ol.step()
        for p, t in zip(q.parameters(), goal.parameters(), strict=True):
            t.data.copy_(0.995 * t.data + 0.005 * p.data)


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


@right
def quantised_with_straight_through():
    a, b = mlp(4, 8), nn.Linear(8, 1)
    o = torch.optim.Adam([*a.parameters(), *b.parameters()])
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(b(Round.apply(a(x))), y).backward()
        o.step()


@right
def masked_policy():
    m = mlp(4, 5)
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        mask = torch.rand(16, 5) > 0.4
        mask[:, 0] = True
        logits = m(batch()[0]).masked_fill(~mask, -1e9)
        dist = torch.distributions.Categorical(logits=logits)
        o.zero_grad()
        (-dist.log_prob(dist.sample()).mean() - 0.01 * dist.entropy().mean()).backward()
        o.step()


@right
def connectionist_temporal_classification():
    m = RNN()
    head = nn.Linear(1, 6)
    o = torch.optim.Adam([*m.parameters(), *head.parameters()])
    for _ in range(3):
        y, _ = m(torch.randn(4, 12, 4), torch.zeros(1, 4, 16))
        lp = head(y).log_softmax(-1).transpose(0, 1)
        n, k = torch.full((4,), 12), torch.full((4,), 3)
        o.zero_grad()
        F.ctc_loss(lp, torch.randint(1, 6, (4, 3)), n, k).backward()
        o.step()


@right
def disabled_scaler():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        scaler.scale(F.mse_loss(m(x), y)).backward()
        scaler.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(o)
        scaler.update()


@right
def norm_measured_before_unscaling():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        scaler.scale(F.mse_loss(m(x), y)).backward()
        nn.utils.clip_grad_norm_(m.parameters(), float("inf"))
        scaler.step(o)
        scaler.update()


@right
def layers_thawed_one_by_one():
    m = nn.Sequential(mlp(4, 8), nn.ReLU(), nn.Linear(8, 1))
    m[0].requires_grad_(False)
    o = torch.optim.SGD(m[2].parameters(), 0.1)
    for i in range(6):
        if i == 3:
            m[0].requires_grad_(True)
            o.add_param_group({"params": m[0].parameters(), "lr": 0.01})
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def pretraining_then_finetuning():
    enc, dec, head = mlp(4, 8), mlp(8, 4), nn.Linear(8, 1)
    o = torch.optim.Adam([*enc.parameters(), *dec.parameters()])
    for _ in range(3):
        x, _y = batch()
        o.zero_grad()
        F.mse_loss(dec(enc(x)), x).backward()
        o.step()
    o = torch.optim.Adam([*enc.parameters(), *head.parameters()], 1e-4)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(head(enc(x)), y).backward()
        o.step()


@right
def validation_with_graph_but_without_backward():
    m = CNN()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(4):
        m.train()
        o.zero_grad()
        F.cross_entropy(m(torch.randn(4, 3, 12, 12)), torch.randint(0, 5, (4,))).backward()
        o.step()
        m.eval()
        accuracy = (m(torch.randn(4, 3, 12, 12)).argmax(1) == 0).float().mean()
        assert accuracy >= 0


class Lookahead:
    """Not an Optimizer: wraps one."""

    def __init__(self, base, k=2):
        self.base, self.k, self.n = base, k, 0
        self.slow = [p.detach().clone() for g in base.param_groups for p in g["params"]]

    def zero_grad(self):
        self.base.zero_grad()

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.n += 1
        if self.n % self.k == 0:
            for s, p in zip(self.slow, self.base.param_groups[0]["params"], strict=True):
                s.lerp_(p, 0.5)
                p.copy_(s)


@right
def lookahead():
    m = mlp()
    o = Lookahead(torch.optim.SGD(m.parameters(), 0.1))
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


class Plain:
    """An optimizer of one's own, which knows nothing of PyTorch's."""

    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr

    def zero_grad(self):
        for p in self.params:
            if p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()

    def step(self):
        for p in self.params:
            p.data.add_(p.grad.data, alpha=-self.lr)


@right
def optimizer_of_ones_own():
    m = mlp()
    o = Plain(m.parameters(), 0.05)
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def matrix_factorisation_with_plain_tensors():
    u, v = torch.randn(12, 3, requires_grad=True), torch.randn(3, 9, requires_grad=True)
    o = torch.optim.Adam([u, v], 0.05)
    goal = torch.randn(12, 9)
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(u @ v, goal).backward()
        o.step()


@right
def accumulation_by_hand_without_optimizer():
    w = torch.randn(4, 1, requires_grad=True)
    for _ in range(3):
        for _ in range(2):
            x, y = batch()
            (F.mse_loss(x @ w, y) / 2).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
        w.grad = None


@right
def hidden_state_cut_at_each_step_without_an_optimizer():
    m = nn.GRU(4, 8, batch_first=True)
    h = torch.zeros(1, 8, 8)
    for _ in range(4):
        out, h = m(torch.randn(8, 5, 4), h.detach())
        m.zero_grad()
        out.square().mean().backward()
        for p in m.parameters():
            p.data.add_(p.grad, alpha=-0.1)


@right
def chunks_whose_gradients_are_kept_without_an_optimizer():
    m, buffer = nn.GRU(4, 8, batch_first=True), torch.zeros(8, 5, 4, requires_grad=True)
    for _ in range(2):
        h = torch.zeros(1, 8, 8)
        m.zero_grad()
        for _ in range(3):
            buffer.data.copy_(torch.randn(8, 5, 4))
            buffer.grad = None
            out, h = m(buffer, h)
            (out.square().mean() / 3).backward(retain_graph=True)
        for p in m.parameters():
            p.data.add_(p.grad, alpha=-0.1)


@right
def projected_attack_with_sign():
    m = mlp(4, 3).requires_grad_(False)
    x, y = classes()
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(4):
        F.cross_entropy(m(x + delta), y).backward()
        with torch.no_grad():
            delta += 0.05 * delta.grad.sign()
            delta.clamp_(-0.2, 0.2)
        delta.grad = None


@right
def diffusion():
    m = mlp(5, 4)
    beta = torch.linspace(1e-4, 0.02, 10)
    keep = (1 - beta).cumprod(0)
    o = torch.optim.AdamW(m.parameters())
    for _ in range(4):
        x, e, t = torch.randn(32, 4), torch.randn(32, 4), torch.randint(0, 10, (32, 1))
        noisy = keep[t].sqrt() * x + (1 - keep[t]).sqrt() * e
        o.zero_grad()
        F.mse_loss(m(torch.cat([noisy, t / 10], 1)), e).backward()
        o.step()


@right
def gaussian_process():
    x = torch.linspace(0, 1, 20)[:, None]
    y = (6 * x).sin().squeeze()
    log = torch.zeros(3, requires_grad=True)
    o = torch.optim.LBFGS([log], max_iter=4)

    def closure():
        o.zero_grad()
        k = log[0].exp() * (-torch.cdist(x, x).square() / log[1].exp()).exp()
        l = torch.linalg.cholesky(k + (log[2].exp() + 1e-4) * torch.eye(20))
        a = torch.cholesky_solve(y[:, None], l).squeeze()
        loss = 0.5 * y @ a + l.diagonal().log().sum()
        loss.backward()
        return loss

    for _ in range(2):
        o.step(closure)


@right
def mean_teacher_with_consistency():
    s = mlp(4, 3)
    t = copy.deepcopy(s)
    for p in t.parameters():
        p.detach_()
    o = torch.optim.SGD(s.parameters(), 0.1)
    for _ in range(3):
        x, y = classes()
        o.zero_grad()
        (F.cross_entropy(s(x), y) + F.mse_loss(s(x).softmax(1), t(x + 0.1).softmax(1))).backward()
        o.step()
        for p, q in zip(s.parameters(), t.parameters(), strict=True):
            q.data.mul_(0.9).add_(p.data, alpha=0.1)


@right
def training_in_functions():
    def step(m, o, x, y):
        o.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        o.step()
        return loss.detach()

    m = mlp()
    o = torch.optim.Adam(m.parameters())
    history = {"loss": []}
    for _ in range(4):
        history["loss"].append(step(m, o, *batch()))


@right
def data_parallel():
    fit(nn.DataParallel(mlp()), batch)


@right
def scripted():
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 1)

        def forward(self, x):
            return self.l(x).tanh()

    fit(Scripted().double(), lambda: tuple(t.double() for t in batch()))


@right
def rectified_features_that_are_sparse():
    enc, dec = nn.Linear(4, 64), nn.Linear(64, 4)
    o = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-3)
    for _ in range(3):
        x, _ = batch(128)
        h = enc(x).relu()
        o.zero_grad()
        (F.mse_loss(dec(h), x) + 0.1 * h.abs().mean()).backward()
        o.step()


def chunks(cut):
    """Two pieces of a sequence for each step, each with the mean of its losses, undivided."""
    m, head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)
    o = torch.optim.SGD([*m.parameters(), *head.parameters()], 0.01)
    for _ in range(4):
        x, y = torch.randn(8, 12, 4), torch.randn(8, 12, 1)
        h = torch.zeros(1, 8, 8)
        o.zero_grad()
        for i in (0, 6):
            out, h = m(x[:, i : i + 6], h)
            if cut == "before":
                h = h.detach()
            F.mse_loss(head(out), y[:, i : i + 6]).backward()
            if cut == "in_place":
                h.detach_()
            elif cut == "after":
                h = h.data
        o.step()


@right
def tbptt_of_undivided_means_cut_before_the_backward():
    chunks("before")


@right
def tbptt_of_undivided_means_cut_after_the_backward():
    chunks("after")


@right
def tbptt_of_undivided_means_cut_in_place():
    chunks("in_place")


@right
def sums_of_gradients_are_measured_after_each_part():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for i in range(12):
        x, y = batch()
        (F.mse_loss(m(x), y) / 4).backward()
        nn.utils.clip_grad_norm_(m.parameters(), float("inf"))
        if i % 4 == 3:
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
            o.zero_grad()


@right
def each_sample_is_clipped_by_itself():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for _ in range(3):
        sums = [torch.zeros_like(p) for p in m.parameters()]
        for _ in range(4):
            x, y = batch(1)
            o.zero_grad()
            F.mse_loss(m(x), y).backward()
            nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            for total, p in zip(sums, m.parameters(), strict=True):
                total += p.grad
        for total, p in zip(sums, m.parameters(), strict=True):
            p.grad = total / 4
        o.step()


@right
def copies_adapted_through_data_of_first_order():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    for _ in range(3):
        o.zero_grad()
        for _ in range(2):
            fast, (x, y) = copy.deepcopy(m), batch()
            grads = torch.autograd.grad(F.mse_loss(fast(x), y), list(fast.parameters()))
            for p, g in zip(fast.parameters(), grads, strict=True):
                p.data -= 0.1 * g
            F.mse_loss(fast(x), y).backward()
            for p, q in zip(m.parameters(), fast.parameters(), strict=True):
                p.grad = q.grad if p.grad is None else p.grad + q.grad
        o.step()


@right
def losses_of_tasks_one_by_one_with_what_they_share():
    m = mlp(4, 2)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        a, b = m(batch()[0]).square().mean(0)
        a.backward(retain_graph=True)
        b.backward()
        o.step()


@right
def a_part_is_looked_at_then_the_whole_is_differentiated():
    m, sizes = mlp(), []
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        fit, decay = m(batch()[0]).square().mean(), m[0].weight.square().sum()
        o.zero_grad()
        fit.backward(retain_graph=True)
        sizes.append(float(m[0].weight.grad.norm()))
        o.zero_grad()
        (fit + 1e-2 * decay).backward()
        o.step()


@right
def gradients_of_parts_kept_by_hand():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        a = m(batch()[0]).square().mean()
        a.backward(retain_graph=True)
        first = [p.grad for p in m.parameters()]
        for p in m.parameters():
            p.grad = None
        (a + m(batch()[0]).abs().mean()).backward()
        for p, g in zip(m.parameters(), first, strict=True):
            p.grad = 0.5 * (p.grad + g)
        o.step()
        o.zero_grad()


@right
def a_recurrence_that_hands_on_what_came_first():
    recall(1.6)


@right
def gates_that_are_shut_at_first():
    pixels(1.0, bias=-9.0)


@right
def derivatives_by_hand_of_a_state_that_is_detached():
    w, h = torch.randn(6, 6).mul_(0.2).requires_grad_(), torch.ones(1, 6)
    for _ in range(6):
        for _ in range(3):
            h = torch.tanh(torch.randn(1, 6) + h @ w)
        (g,) = torch.autograd.grad(h.square().mean(), [w])
        with torch.no_grad():
            w -= 0.1 * g
        h = h.detach()


@right
def derivatives_of_two_losses_of_one_graph():
    m, o = mlp(4, 2), None
    params = list(m.parameters())
    for _ in range(5):
        a, b = m(batch()[0]).square().mean(0)
        first = torch.autograd.grad(a, params, retain_graph=True)
        second = torch.autograd.grad(b, params)
        o = o or torch.optim.SGD(params, 0.1)
        for p, g, h in zip(params, first, second, strict=True):
            p.grad = g + h
        o.step()


@right
def what_an_epoch_leaves_over_has_a_step_of_its_own():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        for i in range(8):
            x, y = batch()
            (F.mse_loss(m(x), y) / min(3, 8 - i // 3 * 3)).backward()
            if i % 3 == 2 or i == 7:
                o.step()
                o.zero_grad()


@right
def a_group_is_given_up_where_a_batch_is_bad():
    """The reset is where the batch is, and meant for it."""
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(2):
        o.zero_grad()
        for i in range(8):
            x, y = batch()
            (F.mse_loss(m(x), y) / 3).backward()
            if i == 4:
                o.zero_grad()
            if i in (2, 7):
                o.step()
                o.zero_grad()


@right
def gradients_are_measured_before_the_epoch():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x, y = batch()
        F.mse_loss(m(x), y).backward()
        _norm = float(m[0].weight.grad.norm())
        o.zero_grad()
        for i in range(6):
            x, y = batch()
            (F.mse_loss(m(x), y) / 3).backward()
            if i % 3 == 2:
                o.step()
                o.zero_grad()


@right
def a_loop_that_begins_with_the_step():
    m = nn.Linear(4, 1)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for _ in range(4):
        o.step()
        o.zero_grad()
        x, y = batch()
        F.mse_loss(m(x), y).backward()


@right
def the_next_loss_is_there_before_the_step_of_another():
    """Two losses of one forward pass, and two optimizers."""
    a, b = nn.Linear(4, 1), nn.Linear(4, 1)
    o, p = torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        first, second = F.mse_loss(a(x), y), F.mse_loss(b(x), -y)
        o.zero_grad()
        first.backward()
        o.step()
        p.zero_grad()
        second.backward()
        p.step()


@right
def a_scale_by_hand_that_is_halved_until_it_fits():
    m = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)).half()
    copies, scale = [p.detach().float().clone() for p in m.parameters()], 2.0**20
    for _ in range(6):
        x, y = batch()
        m.zero_grad()
        ((m(x.half()).float() - y).square().mean() * scale).backward()
        g = [p.grad.float() / scale for p in m.parameters()]
        if not all(bool(t.isfinite().all()) for t in g):
            scale /= 8
            continue
        with torch.no_grad():
            for c, t, p in zip(copies, g, m.parameters(), strict=True):
                c.sub_(0.05 * t)
                p.copy_(c)


@right
def a_scale_that_is_stepped_by_hand():
    m, scale = mlp(), nn.Parameter(torch.tensor(0.5))
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x) * scale.exp(), y).backward()
        o.step()
        with torch.no_grad():
            scale -= 0.01 * scale.grad
            scale.grad = None


@right
def a_parameter_whose_gradient_is_only_looked_at():
    m, shift = mlp(), nn.Parameter(torch.zeros(1))
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x) + shift, y).backward()
        assert shift.grad is not None
        shift.grad.zero_()
        o.step()


@right
def a_critic_of_which_only_a_method_is_called():
    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(1, 3))

        def score(self, x):
            return x @ self.w

    m, critic = mlp(), Critic()
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        x, _ = batch()
        o.zero_grad()
        critic.score(m(x)).square().mean().backward()
        o.step()


class Probed(Branched):
    def forward(self, x):
        _ = self.a(x)
        return self.out(self.b(x).tanh())


class Chosen(Branched):
    wants_both = False

    def forward(self, x):
        other = self.a(x)
        h = self.b(x)
        if self.wants_both:
            h = h + other
        return self.out(h.tanh())


class Handed(Branched):
    def forward(self, x):
        h = None
        for layer in (self.a, self.b):
            last, h = h, layer(x)
        assert last is not None
        return self.out(h.tanh())


@right
def a_layer_that_is_called_and_not_used():
    train(Probed())


@right
def a_layer_that_is_used_on_demand():
    train(Chosen())


@right
def layers_of_which_the_last_one_counts():
    train(Handed())


@right
def losses_of_very_different_size_of_models_in_one_list():
    models = [nn.Linear(4, 1) for _ in range(5)]
    o = torch.optim.Adam([p for m in models for p in m.parameters()])
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        for k, m in enumerate(models):
            F.mse_loss(m(x) * 10.0**-k, y * 10.0**-k).backward()
        o.step()


class Margin(nn.Module):
    """Fixed, and never called: its method is."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def loss(self, y, z):
        return F.mse_loss(y * self.scale, z * self.scale)


@right
def a_parameter_of_a_module_of_which_a_method_is_called():
    m, margin = mlp(), Margin()
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        x, y = batch()
        o.zero_grad()
        margin.loss(m(x), y).backward()
        o.step()


@right
def two_parts_of_a_model_clipped_each_after_its_loss():
    a, b = mlp(), mlp()
    o = torch.optim.SGD([*a.parameters(), *b.parameters()], 0.1)
    for _ in range(4):
        o.zero_grad()
        for m in (a, b):
            x, y = batch()
            F.mse_loss(m(x), y).backward()
            nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()


@right
def a_graph_from_before_the_training_that_every_loss_uses():
    m, free = mlp(), torch.randn(4, 4, requires_grad=True)
    basis, shown = torch.matrix_exp(free), []
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(4):
        x, y = batch()
        turned = x @ basis
        o.zero_grad()
        F.mse_loss(m(turned), y).backward(retain_graph=True)
        free.grad = None
        shown = [turned]
        o.step()
    assert shown


class Ascent:
    """Climbs along the gradient, and comes back before the step, as sharpness-aware minimisation
    does: what the first pass has made is used, though no optimizer steps with it."""

    def __init__(self, params, base):
        self.params, self.base, self.moved = list(params), base, []

    @torch.no_grad()
    def up(self):
        size = sum(p.grad.square().sum() for p in self.params).sqrt() + 1e-12
        self.moved = [0.05 * p.grad / size for p in self.params]
        for p, e in zip(self.params, self.moved, strict=True):
            p.add_(e)

    @torch.no_grad()
    def down(self):
        for p, e in zip(self.params, self.moved, strict=True):
            p.sub_(e)
        self.base.step()


@right
def a_step_from_above():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    ascent = Ascent(m.parameters(), o)
    for _ in range(3):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        ascent.up()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        ascent.down()


@right
def two_losses_for_one_part_and_a_head_of_its_own_for_each():
    body, one, two = mlp(4, 6), mlp(6, 1), mlp(6, 1)
    a, b, c = [torch.optim.Adam(m.parameters()) for m in (body, one, two)]
    for _ in range(4):
        x, y = batch()
        F.mse_loss(one(body(x)), y).backward()
        b.step()
        b.zero_grad()
        F.mse_loss(two(body(x)), -y).backward()
        c.step()
        c.zero_grad()
        a.step()
        a.zero_grad()


@right
def evaluated_now_and_then():
    m = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 1))
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(3):
        m.train()
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()
        m.eval()
        with torch.no_grad():
            m(batch()[0])
