"""Training loops that are right, as people write them: nobody may complain of any of them."""

from __future__ import annotations

import copy
from collections import deque

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from tests.verify.training.programs.training_models import (
    CNN,
    GPT,
    RNN,
    VAE,
    Highway,
    batch,
    classes,
    mlp,
)

RIGHT = []


def right(f):
    RIGHT.append(f)
    return f


@right
def plain_sgd():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def zero_after_step():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        F.mse_loss(m(x), y).backward()
        o.step()
        o.zero_grad()


@right
def zero_in_place():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for _ in range(4):
        o.zero_grad(set_to_none=False)
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def zero_by_model():
    m, (x, y) = mlp(), batch()
    o = torch.optim.RMSprop(m.parameters(), 1e-3)
    for _ in range(4):
        m.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def zero_by_hand():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        for p in m.parameters():
            p.grad = None
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def zero_by_data():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        for p in m.parameters():
            if p.grad is not None:
                p.grad.data.zero_()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def manual_sgd():
    w = torch.randn(4, 1, requires_grad=True)
    x, y = batch()
    for _ in range(4):
        F.mse_loss(x @ w, y).backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()


@right
def manual_sgd_data():
    m, (x, y) = mlp(), batch()
    for _ in range(4):
        m.zero_grad()
        F.mse_loss(m(x), y).backward()
        for p in m.parameters():
            p.data -= 0.01 * p.grad.data


@right
def manual_sgd_functional():
    w = torch.randn(4, 1, requires_grad=True)
    x, y = batch()
    for _ in range(4):
        (g,) = torch.autograd.grad(F.mse_loss(x @ w, y), w)
        w = (w - 0.1 * g).detach().requires_grad_()


@right
def gan():
    g, d = mlp(4, 4), mlp(4, 1)
    og, od = torch.optim.Adam(g.parameters(), 2e-4), torch.optim.Adam(d.parameters(), 2e-4)
    bce = nn.BCEWithLogitsLoss()
    for _ in range(4):
        real, z = torch.randn(16, 4), torch.randn(16, 4)
        d.zero_grad()
        real_loss = bce(d(real), torch.ones(16, 1))
        real_loss.backward()
        fake = g(z)
        fake_loss = bce(d(fake.detach()), torch.zeros(16, 1))
        fake_loss.backward()
        od.step()
        g.zero_grad()
        bce(d(fake), torch.ones(16, 1)).backward()
        og.step()


@right
def wgan_gp():
    g, d = mlp(4, 4), mlp(4, 1)
    og, od = torch.optim.Adam(g.parameters(), 1e-4), torch.optim.Adam(d.parameters(), 1e-4)
    for it in range(6):
        real, fake = torch.randn(16, 4), g(torch.randn(16, 4)).detach()
        mix = (0.3 * real + 0.7 * fake).requires_grad_()
        (grad,) = torch.autograd.grad(d(mix).sum(), mix, create_graph=True)
        penalty = ((grad.norm(dim=1) - 1) ** 2).mean()
        od.zero_grad()
        (d(fake).mean() - d(real).mean() + 10 * penalty).backward()
        od.step()
        if it % 3 == 2:
            og.zero_grad()
            (-d(g(torch.randn(16, 4))).mean()).backward()
            og.step()


@right
def accumulation():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for i in range(12):
        x, y = batch()
        (F.mse_loss(m(x), y) / 4).backward()
        if (i + 1) % 4 == 0:
            o.step()
            o.zero_grad()


@right
def accumulation_nested():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    k = 3
    for _ in range(3):
        o.zero_grad()
        for _ in range(k):
            x, y = batch()
            loss = F.mse_loss(m(x), y)
            loss = loss * (1.0 / k)
            loss.backward()
        o.step()


@right
def accumulation_of_sums():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(3):
        o.zero_grad()
        for _ in range(4):
            x, y = batch()
            F.mse_loss(m(x), y, reduction="sum").backward()
        o.step()


@right
def accumulation_by_share():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(3):
        o.zero_grad()
        for n in (16, 8, 4):
            x, y = batch(n)
            (F.mse_loss(m(x), y) * n / 28).backward()
        o.step()


@right
def accumulation_divided_gradients():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        for _ in range(4):
            x, y = batch()
            F.mse_loss(m(x), y).backward()
        for p in m.parameters():
            p.grad /= 4
        o.step()


@right
def accumulation_with_clip():
    m = mlp()
    o = torch.optim.AdamW(m.parameters(), 1e-3)
    for i in range(8):
        x, y = batch()
        loss = (F.mse_loss(m(x), y) + 1e-3 * sum(p.square().sum() for p in m.parameters())) / 2
        loss.backward()
        if i % 2:
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
            o.step()
            o.zero_grad()


@right
def accumulation_two_optimizers():
    a, b = mlp(), mlp()
    oa, ob = torch.optim.SGD(a.parameters(), 0.1), torch.optim.SGD(b.parameters(), 0.1)
    for i in range(12):
        x, y = batch()
        (F.mse_loss(a(x) + b(x), y) / 3).backward()
        if i % 3 == 2:
            oa.step(), ob.step()
            oa.zero_grad(), ob.zero_grad()


@right
def lbfgs():
    m, (x, y) = mlp(), batch()
    o = torch.optim.LBFGS(m.parameters(), max_iter=5)

    def closure():
        o.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        o.step(closure)


@right
def adam_with_closure():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())

    def closure():
        o.zero_grad()
        loss = F.mse_loss(m(x), y)
        loss.backward()
        return loss

    losses = [o.step(closure).item() for _ in range(4)]
    assert len(losses) == 4


@right
def ema_model():
    m, (x, y) = mlp(), batch()
    ema = copy.deepcopy(m).requires_grad_(False)
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()
        with torch.no_grad():
            for p, q in zip(m.parameters(), ema.parameters(), strict=True):
                q.lerp_(p, 0.01)
        ema(x)


@right
def dqn_target_network():
    q = mlp(4, 3)
    target = copy.deepcopy(q)
    o = torch.optim.Adam(q.parameters(), 1e-3)
    for i in range(4):
        s, a, r, s2 = torch.randn(16, 4), torch.randint(0, 3, (16, 1)), torch.randn(16), batch()[0]
        with torch.no_grad():
            goal = r + 0.99 * target(s2).max(1).values
        loss = F.smooth_l1_loss(q(s).gather(1, a).squeeze(1), goal)
        o.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(q.parameters(), 100)
        o.step()
        if i % 2:
            target.load_state_dict(q.state_dict())


@right
def momentum_contrast():
    q, k = mlp(4, 8), mlp(4, 8)
    k.load_state_dict(q.state_dict())
    for p in k.parameters():
        p.requires_grad = False
    o = torch.optim.SGD(q.parameters(), 0.03, momentum=0.9)
    queue = F.normalize(torch.randn(8, 32), dim=0)
    for _ in range(4):
        x, _ = batch()
        zq = F.normalize(q(x), dim=1)
        with torch.no_grad():
            zk = F.normalize(k(x + 0.1), dim=1)
        logits = torch.cat([(zq * zk).sum(1, keepdim=True), zq @ queue], 1) / 0.07
        loss = F.cross_entropy(logits, torch.zeros(16, dtype=torch.long))
        o.zero_grad()
        loss.backward()
        o.step()
        queue = torch.cat([queue[:, 16:], zk.T], 1)


@right
def simsiam_stop_gradient():
    f, h = mlp(4, 8), mlp(8, 8)
    o = torch.optim.SGD([*f.parameters(), *h.parameters()], 0.05)
    for _ in range(4):
        x, _ = batch()
        z1, z2 = f(x), f(x + 0.1)
        p1, p2 = h(z1), h(z2)
        loss = -(F.cosine_similarity(p1, z2.detach()) + F.cosine_similarity(p2, z1.detach())).mean()
        o.zero_grad()
        loss.backward()
        o.step()


@right
def frozen_backbone():
    body, head = mlp(4, 8), nn.Linear(8, 3)
    for p in body.parameters():
        p.requires_grad_(False)
    m = nn.Sequential(body, head)
    o = torch.optim.SGD(filter(lambda p: p.requires_grad, m.parameters()), 0.1)
    x, y = classes()
    for _ in range(4):
        o.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()


@right
def frozen_backbone_by_the_optimizer_only():
    m = nn.Sequential(mlp(4, 8), nn.Linear(8, 3))
    m[0].load_state_dict(mlp(4, 8).state_dict())
    o = torch.optim.SGD(m[1].parameters(), 0.1)
    x, y = classes()
    for _ in range(4):
        m.zero_grad()
        F.cross_entropy(m(x), y).backward()
        o.step()


@right
def frozen_features_without_graph():
    body, head = mlp(4, 8), nn.Linear(8, 3)
    o = torch.optim.SGD(head.parameters(), 0.1)
    x, y = classes()
    for _ in range(4):
        with torch.no_grad():
            h = body(x)
        o.zero_grad()
        F.cross_entropy(head(h), y).backward()
        o.step()


@right
def policy_gradient():
    policy, value = mlp(4, 3), mlp(4, 1)
    o = torch.optim.Adam([*policy.parameters(), *value.parameters()], 1e-3)
    for _ in range(4):
        s, ret = torch.randn(32, 4), torch.randn(32)
        dist = torch.distributions.Categorical(logits=policy(s))
        a = dist.sample()
        v = value(s).squeeze(1)
        advantage = (ret - v).detach()
        loss = -(dist.log_prob(a) * advantage).mean() + 0.5 * F.mse_loss(v, ret)
        o.zero_grad()
        (loss - 0.01 * dist.entropy().mean()).backward()
        o.step()


@right
def reinforce_episodes():
    policy = mlp(4, 2)
    o = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(4):
        logs, rewards = [], []
        for _ in range(5):
            dist = torch.distributions.Categorical(logits=policy(torch.randn(1, 4)))
            a = dist.sample()
            logs.append(dist.log_prob(a))
            rewards.append(1.0)
        loss = torch.cat([-g * r for g, r in zip(logs, rewards, strict=True)]).sum()
        o.zero_grad()
        loss.backward()
        o.step()


@right
def ppo():
    policy, value = mlp(4, 3), mlp(4, 1)
    o = torch.optim.Adam([*policy.parameters(), *value.parameters()], 1e-3)
    for _ in range(2):
        s, ret = torch.randn(64, 4), torch.randn(64)
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=policy(s))
            a = dist.sample()
            old, adv = dist.log_prob(a), ret - value(s).squeeze(1)
        for part in torch.randperm(64).split(32):
            d = torch.distributions.Categorical(logits=policy(s[part]))
            ratio = (d.log_prob(a[part]) - old[part]).exp()
            clipped = ratio.clamp(0.8, 1.2) * adv[part]
            loss = -torch.min(ratio * adv[part], clipped).mean()
            loss = loss + 0.5 * F.mse_loss(value(s[part]).squeeze(1), ret[part])
            o.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_([*policy.parameters(), *value.parameters()], 0.5)
            o.step()


@right
def ddpg():
    actor, critic = mlp(4, 2), mlp(6, 1)
    oa, oc = torch.optim.Adam(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters(), 1e-3)
    for _ in range(4):
        s, a, goal = torch.randn(16, 4), torch.randn(16, 2), torch.randn(16, 1)
        oc.zero_grad()
        F.mse_loss(critic(torch.cat([s, a], 1)), goal).backward()
        oc.step()
        oa.zero_grad()
        (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
        oa.step()


@right
def tbptt_with_detach():
    m = RNN()
    o = torch.optim.SGD(m.parameters(), 0.1)
    h = torch.zeros(1, 8, 16)
    for _ in range(5):
        x, y = torch.randn(8, 6, 4), torch.randn(8, 6, 1)
        h = h.detach()
        out, h = m(x, h)
        o.zero_grad()
        F.mse_loss(out, y).backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()


@right
def tbptt_of_two_chunks_for_one_step():
    m, head = nn.LSTM(4, 16, batch_first=True), nn.Linear(16, 1)
    o = torch.optim.SGD([*m.parameters(), *head.parameters()], 0.1)
    for _ in range(4):
        x, y = torch.randn(8, 12, 4), torch.randn(8, 12, 1)
        state = None
        o.zero_grad()
        for chunk in range(2):
            state = None if state is None else tuple([s.detach() for s in state])
            loss = 0
            for t in range(6 * chunk, 6 * chunk + 6):
                out, state = m(x[:, t : t + 1], state)
                loss = loss + F.mse_loss(head(out), y[:, t : t + 1])
            (loss / 6).backward()
        o.step()


@right
def lstm_of_different_lengths():
    m, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)
    o = torch.optim.Adam([*m.parameters(), *head.parameters()], 1e-2)
    for n in (2, 4, 7, 11):
        out, _ = m(torch.randn(8, n, 4))
        o.zero_grad()
        head(out[:, -1]).square().mean().backward()
        o.step()


@right
def cell_over_longer_and_longer_sequences():
    m, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
    o = torch.optim.Adam([*m.parameters(), *head.parameters()], 1e-2)
    for n in (2, 4, 6, 8):
        h = torch.zeros(8, 8)
        for _ in range(n):
            h = m(torch.randn(8, 4), h)
        o.zero_grad()
        head(h).square().mean().backward()
        o.step()


@right
def stochastic_weight_averaging():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    swa = torch.optim.swa_utils.AveragedModel(m)
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()
        swa.update_parameters(m)


@right
def two_losses_with_retained_graph():
    m = mlp(4, 8)
    a, b = nn.Linear(8, 1), nn.Linear(8, 1)
    o = torch.optim.Adam([*m.parameters(), *a.parameters(), *b.parameters()])
    x, y = batch()
    for _ in range(4):
        h = m(x)
        o.zero_grad()
        F.mse_loss(a(h), y).backward(retain_graph=True)
        F.mse_loss(b(h), -y).backward()
        o.step()


@right
def losses_in_a_loop_over_heads():
    m = mlp(4, 8)
    heads = nn.ModuleList([nn.Linear(8, 1) for _ in range(3)])
    o = torch.optim.Adam([*m.parameters(), *heads.parameters()])
    x, y = batch()
    for _ in range(4):
        h = m(x)
        o.zero_grad()
        for head in heads:
            F.mse_loss(head(h), y).backward(retain_graph=True)
        o.step()


@right
def reentrant_checkpoint():
    m = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)])
    first, last = nn.Linear(4, 8), nn.Linear(8, 1)
    o = torch.optim.Adam([*m.parameters(), *first.parameters(), *last.parameters()])
    x, y = batch()
    for _ in range(4):
        h = first(x)
        for block in m:
            h = checkpoint(block, h, use_reentrant=True)
        o.zero_grad()
        F.mse_loss(last(h), y).backward()
        o.step()


@right
def checkpoint_with_accumulation():
    m = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(3)])
    last = nn.Linear(4, 1)
    o = torch.optim.Adam([*m.parameters(), *last.parameters()])
    for i in range(8):
        h, y = batch()
        for block in m:
            h = checkpoint(block, h, use_reentrant=False)
        (F.mse_loss(last(h), y) / 2).backward()
        if i % 2:
            o.step()
            o.zero_grad()


@right
def tied_weights():
    emb, out = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
    out.weight = emb.weight
    m = nn.Sequential(emb, nn.Linear(8, 8), nn.Tanh(), out)
    o = torch.optim.AdamW(m.parameters(), 1e-2)
    for _ in range(4):
        t = torch.randint(0, 11, (4, 9))
        loss = F.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        o.zero_grad()
        loss.backward()
        o.step()


@right
def scaled_float16():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(4):
        o.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.mse_loss(m(x), y.half())
        scaler.scale(loss).backward()
        scaler.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        scaler.step(o)
        scaler.update()


@right
def scaled_float16_first_steps_skipped():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    for _ in range(8):
        o.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = F.mse_loss(m(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(o)
        scaler.update()


@right
def scaled_accumulation():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    for i in range(8):
        x, y = batch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(m(x).float(), y) / 4
        scaler.scale(loss).backward()
        if i % 4 == 3:
            scaler.step(o)
            scaler.update()
            o.zero_grad()


@right
def bfloat16_autocast():
    m = CNN()
    o = torch.optim.AdamW(m.parameters(), 1e-3)
    for _ in range(4):
        x, y = torch.randn(8, 3, 12, 12), torch.randint(0, 5, (8,))
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(m(x), y)
        o.zero_grad()
        loss.backward()
        o.step()


@right
def bfloat16_parameters():
    m, (x, y) = mlp().bfloat16(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m(x.bfloat16()), y.bfloat16()).backward()
        o.step()


@right
def unused_head():
    m = nn.ModuleDict({"body": mlp(4, 8), "a": nn.Linear(8, 1), "b": nn.Linear(8, 1)})
    o = torch.optim.Adam(m.parameters())
    x, y = batch()
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m["a"](m["body"](x)), y).backward()
        o.step()


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.pooler = mlp(4, 8), nn.Linear(8, 1), nn.Linear(8, 8)

    def forward(self, x):
        h = self.body(x)
        return self.head(h), self.pooler(h).tanh()


@right
def computed_but_unused_output():
    m, (x, y) = Pooled(), batch()
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        out, _ = m(x)
        o.zero_grad()
        F.mse_loss(out, y).backward()
        o.step()


@right
def gpt():
    m = GPT()
    o = torch.optim.AdamW(m.parameters(), 3e-4)
    for _ in range(3):
        t = torch.randint(0, 31, (4, 17))
        loss = F.cross_entropy(m(t[:, :-1]).flatten(0, 1), t[:, 1:].flatten())
        o.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()


@right
def encoder_of_torch():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    m = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Linear(16, 3))
    o = torch.optim.Adam(m.parameters(), 1e-3)
    x, y = torch.randn(8, 5, 16), torch.randint(0, 3, (8,))
    for _ in range(3):
        m.train()
        o.zero_grad()
        F.cross_entropy(m(x).mean(1), y).backward()
        o.step()
        m.eval()
        with torch.no_grad():
            m(x)


@right
def cnn_with_schedule_and_validation():
    m = CNN()
    o = torch.optim.SGD(m.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(o, 4)
    seen = []
    for _ in range(4):
        m.train()
        x, y = torch.randn(8, 3, 12, 12), torch.randint(0, 5, (8,))
        loss = F.cross_entropy(m(x), y)
        o.zero_grad()
        loss.backward()
        o.step()
        schedule.step()
        m.eval()
        with torch.no_grad():
            seen.append(F.cross_entropy(m(x), y))


@right
def residual_network():
    m = nn.Sequential(nn.Linear(4, 32), *[Highway(32) for _ in range(12)], nn.Linear(32, 1))
    o = torch.optim.Adam(m.parameters(), 1e-3)
    for _ in range(3):
        x, y = batch(64)
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def deep_relu_with_he_init():
    m = nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(32, 32), nn.ReLU())])
    for layer in m:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(3):
        x = torch.randn(64, 32)
        o.zero_grad()
        F.mse_loss(m(x), x).backward()
        o.step()


@right
def zero_initialised_branches():
    m = nn.Sequential(*[Highway(16) for _ in range(4)])
    for block in m:
        nn.init.zeros_(block.b.weight)
        nn.init.zeros_(block.b.bias)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        x = torch.randn(32, 16)
        o.zero_grad()
        F.mse_loss(m(x), 2 * x).backward()
        o.step()


@right
def low_rank_adapter():
    base = nn.Linear(8, 8).requires_grad_(False)
    down, up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
    nn.init.zeros_(up.weight)
    o = torch.optim.AdamW([*down.parameters(), *up.parameters()], 1e-2)
    for _ in range(4):
        x = torch.randn(16, 8)
        o.zero_grad()
        F.mse_loss(base(x) + up(down(x)), x.sin()).backward()
        o.step()


@right
def vae():
    m = VAE()
    o = torch.optim.Adam(m.parameters(), 1e-3)
    for _ in range(4):
        x = torch.rand(16, 12)
        out, mu, logvar = m(x)
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum()
        loss = F.binary_cross_entropy(out, x, reduction="sum") + kl
        o.zero_grad()
        loss.backward()
        o.step()


@right
def distillation():
    teacher, student = mlp(4, 3).eval(), mlp(4, 3)
    o = torch.optim.Adam(student.parameters())
    for _ in range(4):
        x, y = classes()
        with torch.no_grad():
            soft = F.softmax(teacher(x) / 2, -1)
        s = student(x)
        loss = F.kl_div(F.log_softmax(s / 2, -1), soft, reduction="batchmean") * 4
        o.zero_grad()
        (0.5 * loss + 0.5 * F.cross_entropy(s, y)).backward()
        o.step()


@right
def triplet_loss_that_is_satisfied():
    m = mlp(4, 8)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    for _ in range(4):
        a = m(torch.randn(64, 4))
        d = torch.cdist(a, a.flip(0))
        o.zero_grad()
        F.relu(1e-3 - d + 1e-4).mean().backward()
        o.step()


@right
def adversarial_training():
    m = mlp(4, 3)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        x, y = classes()
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(3):
            F.cross_entropy(m(x + delta), y).backward()
            delta.data = (delta + 0.01 * delta.grad.sign()).clamp(-0.1, 0.1).detach()
            delta.grad.zero_()
        o.zero_grad()
        F.cross_entropy(m(x + delta.detach()), y).backward()
        o.step()


class SAM(torch.optim.Optimizer):
    def __init__(self, params, rho=0.05, lr=0.1):
        super().__init__(params, {"rho": rho, "lr": lr})
        self.base = torch.optim.SGD(self.param_groups, lr)

    @torch.no_grad()
    def climb(self):
        ps = [p for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in ps]).norm()
        for p in ps:
            self.state[p]["e"] = p.grad * (0.05 / (norm + 1e-12))
            p.add_(self.state[p]["e"])
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                p.sub_(self.state[p]["e"])
        self.base.step()
        self.zero_grad()


@right
def sharpness_aware():
    m, (x, y) = mlp(), batch()
    o = SAM(m.parameters())
    for _ in range(4):
        F.mse_loss(m(x), y).backward()
        o.climb()
        F.mse_loss(m(x), y).backward()
        o.step()


@right
def gradient_surgery():
    m = mlp(4, 2)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(4):
        x, y = batch()
        parts = []
        for k in range(2):
            o.zero_grad()
            F.mse_loss(m(x)[:, k : k + 1], y).backward()
            parts.append([p.grad.clone() for p in m.parameters()])
        for p, *gs in zip(m.parameters(), *parts, strict=True):
            p.grad = torch.stack(gs).mean(0)
        o.step()


@right
def meta_learning():
    m = mlp()
    o = torch.optim.Adam(m.parameters(), 1e-3)
    for _ in range(3):
        o.zero_grad()
        total = 0.0
        for _ in range(2):
            x, y = batch()
            fast = dict(m.named_parameters())
            loss = F.mse_loss(torch.func.functional_call(m, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {k: p - 0.1 * g for (k, p), g in zip(fast.items(), grads, strict=True)}
            total = total + F.mse_loss(torch.func.functional_call(m, fast, (x,)), y)
        total.backward()
        o.step()


@right
def physics_informed():
    m = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    o = torch.optim.Adam(m.parameters(), 1e-3)
    x = torch.linspace(0, 1, 32)[:, None].requires_grad_()
    for _ in range(4):
        u = m(x)
        (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        loss = (du + u).square().mean() + (m(torch.zeros(1, 1)) - 1).square().mean()
        o.zero_grad()
        loss.backward()
        o.step()


@right
def losses_as_numbers():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    losses, outputs, total = [], deque(maxlen=8), 0.0
    for _ in range(5):
        out = m(x)
        loss = F.mse_loss(out, y)
        o.zero_grad()
        loss.backward()
        o.step()
        losses.append(loss.item())
        outputs.append(out.detach())
        total += float(loss.detach())


@right
def validation_loss_summed_without_graph():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()
        total = 0
        with torch.no_grad():
            for _ in range(3):
                total = total + F.mse_loss(m(x), y)


@right
def masked_attention_with_infinities():
    q = nn.Linear(8, 8)
    o = torch.optim.Adam(q.parameters(), 1e-3)
    mask = torch.triu(torch.full((6, 6), float("-inf")), 1)
    for _ in range(4):
        h = q(torch.randn(4, 6, 8))
        s = h @ h.transpose(1, 2)
        w = (s + mask).softmax(-1) + s.masked_fill(mask < 0, -torch.inf).softmax(-1)
        o.zero_grad()
        (
            (w @ h).square().mean() + torch.where(mask == 0, s, -torch.inf).logsumexp(-1).mean()
        ).backward()
        o.step()


@right
def infinite_values_that_are_masked_later():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    x, y = batch()
    for _ in range(4):
        p = m(x)
        with torch.no_grad():
            weights = 1 / (y > 0).float()
            weights[weights.isinf()] = 0
        o.zero_grad()
        ((p - y).square() * weights).mean().backward()
        o.step()


@right
def skipped_bad_batches():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for i in range(6):
        x, y = batch()
        if i == 2:
            x = x / 0
        loss = F.mse_loss(m(x), y)
        if not torch.isfinite(loss):
            continue
        o.zero_grad()
        loss.backward()
        o.step()


@right
def parameter_groups_and_schedule():
    m = nn.Sequential(mlp(4, 8), nn.Linear(8, 1))
    o = torch.optim.AdamW(
        [{"params": m[0].parameters(), "lr": 1e-4}, {"params": m[1].parameters()}], lr=1e-2
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(o, [1e-3, 1e-2], total_steps=8)
    for _ in range(6):
        x, y = batch()
        o.zero_grad()
        F.mse_loss(m(x), y).backward()
        o.step()
        schedule.step()


@right
def sparse_embedding():
    e, l = nn.EmbeddingBag(20, 8, sparse=True), nn.Linear(8, 1)
    oe, ol = torch.optim.SparseAdam(e.parameters(), 1e-2), torch.optim.Adam(l.parameters(), 1e-2)
    for _ in range(4):
        t = torch.randint(0, 20, (16, 4))
        oe.zero_grad(), ol.zero_grad()
        l(e(t)).square().mean().backward()
        oe.step(), ol.step()


@right
def complex_numbers():
    w = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))
    o = torch.optim.Adam([w], 1e-2)
    for _ in range(4):
        x = torch.randn(8, 4, dtype=torch.complex64)
        o.zero_grad()
        (x @ w - x).abs().square().mean().backward()
        o.step()


@right
def mixture_of_experts():
    gate, experts = nn.Linear(4, 4), nn.ModuleList([mlp(4, 4) for _ in range(4)])
    o = torch.optim.Adam([*gate.parameters(), *experts.parameters()], 1e-3)
    for _ in range(4):
        x, y = batch()
        p = gate(x).softmax(-1)
        top = p.argmax(-1)
        out = torch.zeros_like(x)
        for k in top.unique().tolist():
            rows = top == k
            out[rows] = experts[k](x[rows]) * p[rows, k, None]
        o.zero_grad()
        F.mse_loss(out.sum(1, keepdim=True), y).backward()
        o.step()


@right
def vector_quantisation():
    enc, dec, book = mlp(4, 4), mlp(4, 4), nn.Embedding(8, 4)
    o = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], 1e-3)
    for _ in range(4):
        x, _ = batch()
        z = enc(x)
        q = book(torch.cdist(z, book.weight).argmin(1))
        st = z + (q - z).detach()
        loss = F.mse_loss(dec(st), x) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        o.zero_grad()
        loss.backward()
        o.step()


@right
def frozen_batch_norm():
    m = CNN()
    o = torch.optim.SGD(m.parameters(), 1e-2)
    for _ in range(3):
        m.train()
        for part in m.modules():
            if isinstance(part, nn.BatchNorm2d):
                part.eval()
        o.zero_grad()
        F.cross_entropy(m(torch.randn(4, 3, 12, 12)), torch.randint(0, 5, (4,))).backward()
        o.step()


@right
def cut_that_is_shown_only():
    m, (x, y) = mlp(), batch()
    o = torch.optim.Adam(m.parameters())
    history = []
    for _ in range(4):
        out = m(x)
        loss = F.mse_loss(out, y)
        o.zero_grad()
        loss.backward()
        o.step()
        history.append((out.detach().numpy().mean(), loss.data.item(), out.argmax().tolist()))


@right
def style_transfer_of_an_image():
    features = mlp(4, 8).requires_grad_(False)
    image = torch.randn(1, 4, requires_grad=True)
    o = torch.optim.Adam([image], 0.1)
    with torch.no_grad():
        goal = features(torch.randn(1, 4))
    for _ in range(4):
        o.zero_grad()
        F.mse_loss(features(image), goal).backward()
        o.step()
