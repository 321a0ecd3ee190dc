"""Training loops that cut the graph on purpose: `deliberate.py NAME`. None of them is wrong."""

import copy
import itertools
import sys

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

torch.manual_seed(0)


def mlp(*sizes, last=None):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1], *([last] if last else []))


def gan():
    generator, critic = mlp(3, 8, 4), mlp(4, 8, 1)
    og = torch.optim.Adam(generator.parameters(), lr=1e-3)
    oc = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(6):
        real, fake = torch.randn(5, 4), generator(torch.randn(5, 3))
        loss_c = F.softplus(critic(fake.detach())).mean() + F.softplus(-critic(real)).mean()
        oc.zero_grad()
        loss_c.backward()
        oc.step()
        loss_g = F.softplus(-critic(fake)).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()
        print(step, loss_c.item(), loss_g.item())


def wgan():
    generator, critic = mlp(3, 8, 4), mlp(4, 8, 1)
    og = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
    oc = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    for step in range(3):
        for _ in range(5):
            with torch.no_grad():
                fake = generator(torch.randn(5, 3))
            loss = critic(fake).mean() - critic(torch.randn(5, 4)).mean()
            oc.zero_grad()
            loss.backward()
            oc.step()
            for p in critic.parameters():
                p.data.clamp_(-0.1, 0.1)
        og.zero_grad()
        (-critic(generator(torch.randn(5, 3))).mean()).backward()
        og.step()
        print(step, loss.item())


def actor_critic():
    body, policy, value = mlp(4, 8, last=nn.Tanh()), nn.Linear(8, 3), nn.Linear(8, 1)
    parameters = [*body.parameters(), *policy.parameters(), *value.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for step in range(6):
        h = body(torch.randn(10, 4))
        dist = torch.distributions.Categorical(logits=policy(h))
        action = dist.sample()
        returns = (action == 1).float() + 0.1 * torch.randn(10)
        v = value(h).squeeze(-1)
        advantage = (returns - v).detach()
        loss = -(dist.log_prob(action) * advantage).mean() + 0.5 * (returns - v).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def ppo():
    policy = mlp(4, 8, 3)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(4):
        x = torch.randn(10, 4)
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=policy(x))
            action = dist.sample()
            old = dist.log_prob(action)
        reward = (action == 1).float()
        for _ in range(2):
            now = torch.distributions.Categorical(logits=policy(x)).log_prob(action)
            ratio = (now - old).exp()
            a = reward - reward.mean()
            loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
        print(step, loss.item())


def dqn():
    net = mlp(4, 8, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(6):
        s, a, r, s2 = torch.randn(9, 4), torch.randint(3, (9,)), torch.randn(9), torch.randn(9, 4)
        target = r + 0.9 * net(s2).max(-1).values.detach()
        loss = F.smooth_l1_loss(net(s).gather(1, a[:, None]).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def simsiam():
    encoder, predictor = mlp(4, 8, 5), mlp(5, 6, 5)
    optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.1)
    for step in range(6):
        x = torch.randn(7, 4)
        z1, z2 = encoder(x + 0.1 * torch.randn(7, 4)), encoder(x + 0.1 * torch.randn(7, 4))
        p1, p2 = predictor(z1), predictor(z2)
        loss = -F.cosine_similarity(p1, z2.detach()).mean() / 2
        loss = loss - F.cosine_similarity(p2, z1.detach()).mean() / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def moco():
    query = mlp(4, 8, 5)
    key = copy.deepcopy(query)
    for p in key.parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD(query.parameters(), lr=0.1)
    queue = F.normalize(torch.randn(5, 16), dim=0)
    for step in range(6):
        x = torch.randn(7, 4)
        q = F.normalize(query(x), dim=1)
        with torch.no_grad():
            for pq, pk in zip(query.parameters(), key.parameters(), strict=True):
                pk.data = pk.data * 0.9 + pq.data * 0.1
            k = F.normalize(key(x), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue], 1) / 0.1
        loss = F.cross_entropy(logits, torch.zeros(7, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue = torch.cat([k.T, queue], 1)[:, :16]
        print(step, loss.item())


def mean_teacher():
    student = mlp(4, 8, 3)
    teacher = copy.deepcopy(student)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
    for step in range(6):
        x = torch.randn(8, 4)
        with torch.no_grad():
            soft = teacher(x).softmax(-1)
        loss = F.cross_entropy(student(x + 0.1), soft) + F.cross_entropy(student(x), soft.argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for pt, ps in zip(teacher.parameters(), student.parameters(), strict=True):
                pt.mul_(0.9).add_(ps, alpha=0.1)
        print(step, loss.item())


def vq():
    encoder, decoder = mlp(4, 8, 3), mlp(3, 8, 4)
    codes = nn.Parameter(torch.randn(6, 3))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), codes], lr=1e-2)
    for step in range(6):
        x = torch.randn(9, 4)
        z = encoder(x)
        q = codes[torch.cdist(z, codes).argmin(1)]
        out = decoder(z + (q - z).detach())
        loss = F.mse_loss(out, x) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def reinforce():
    policy = mlp(4, 8, 2)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step in range(6):
        mean, spread = policy(torch.randn(10, 4)).chunk(2, 1)
        dist = torch.distributions.Normal(mean, F.softplus(spread))
        action = dist.sample()
        loss = (dist.log_prob(action) * (action - 1).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def reinforce_and_critic():
    policy, critic = mlp(4, 8, 2), mlp(5, 8, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=1e-2)
    for step in range(6):
        x = torch.randn(10, 4)
        mean, spread = policy(x).chunk(2, 1)
        std = F.softplus(spread)
        action = (mean + std * torch.randn_like(std)).detach()
        value = critic(torch.cat([x, action], 1))
        likely = -((action - mean) / std).square() / 2 - std.log()
        advantage = (action - 1).square() - value.detach()
        loss = (likely * advantage).mean() + (value - (action - 1).square()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def soft_actor_critic():
    policy, critic = mlp(4, 8, 2), mlp(5, 8, 1)
    op = torch.optim.Adam(policy.parameters(), lr=1e-2)
    oc = torch.optim.Adam(critic.parameters(), lr=1e-2)
    for step in range(6):
        x = torch.randn(10, 4)
        mean, spread = policy(x).chunk(2, 1)
        dist = torch.distributions.Normal(mean, F.softplus(spread))
        taken = dist.sample()
        wrong = critic(torch.cat([x, taken], 1)) - (taken - 1).square()
        oc.zero_grad()
        wrong.square().mean().backward()
        oc.step()
        action = dist.rsample()
        loss = (dist.log_prob(action) * 0.1 - critic(torch.cat([x, action], 1))).mean()
        op.zero_grad()
        loss.backward()
        op.step()
        print(step, loss.item())


def quantized():
    net, head = mlp(4, 8, 8), nn.Linear(8, 2)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=1e-2)
    for step in range(6):
        h = net(torch.randn(8, 4))
        h = h + (torch.round(h * 8) / 8 - h).detach()
        loss = head(h).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def truncated():
    cell, head = nn.GRUCell(3, 6), nn.Linear(6, 3)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
    for step in range(4):
        h, x = torch.zeros(4, 6), torch.randn(9, 4, 3)
        for t in range(0, 9, 3):
            h = h.detach()
            loss = 0.0
            for i in range(t, min(t + 3, 8)):
                h = cell(x[i], h)
                loss = loss + F.mse_loss(head(h), x[i + 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(step, loss.item())


def truncated_one_step():
    cell, head = nn.GRUCell(3, 6), nn.Linear(6, 3)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
    for step in range(4):
        h, x = torch.zeros(4, 6), torch.randn(9, 4, 3)
        optimizer.zero_grad()
        for t in range(0, 6, 3):
            h = h.detach()
            loss = 0.0
            for i in range(t, t + 3):
                h = cell(x[i], h)
                loss = loss + F.mse_loss(head(h), x[i + 1]) / 6
            loss.backward()
        optimizer.step()
        print(step, loss.item())


def probe():
    body, main, aside = mlp(4, 8, 6), nn.Linear(6, 2), nn.Linear(6, 3)
    parameters = [*body.parameters(), *main.parameters(), *aside.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for step in range(6):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        h = body(x)
        loss = main(h).square().mean() + F.cross_entropy(aside(h.detach()), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def frozen():
    body, head = mlp(4, 8, 6), nn.Linear(6, 2)
    for p in body.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(6):
        with torch.no_grad():
            h = body(torch.randn(8, 4))
        loss = head(h).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def frozen_by_head():
    body, head = mlp(4, 8, 6), nn.Linear(6, 2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for step in range(6):
        loss = head(body(torch.randn(8, 4)).detach()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def weighted():
    net = mlp(4, 8, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(6):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        each = F.cross_entropy(net(x), y, reduction="none")
        weight = (each / each.max()).detach()
        loss = (weight * each).mean()
        loss = loss + 0.1 * (net(x).square().mean() / net(x).square().mean().item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def by_hand():
    w = torch.randn(4, 3, requires_grad=True)
    b = torch.zeros(3, requires_grad=True)
    for step in range(6):
        x, y = torch.randn(8, 4), torch.randint(3, (8,))
        loss = F.cross_entropy(x @ w + b, y)
        loss.backward()
        for p in (w, b):
            p.data -= 0.1 * p.grad
            p.grad = None
        print(step, loss.item())


def by_hand_no_grad():
    net = mlp(4, 8, 3)
    for step in range(6):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(3, (8,)))
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        print(step, loss.item())


def norms():
    net = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 8)),
        nn.BatchNorm1d(8),
        nn.ReLU(inplace=True),
        nn.Dropout(0.2),
        nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)),
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(6):
        loss = F.cross_entropy(net(torch.randn(8, 4)), torch.randint(3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def spectral_by_hand():
    body, head = nn.Linear(4, 8), nn.Linear(8, 2)
    u, v = nn.Parameter(torch.randn(8), False), nn.Parameter(torch.randn(4), False)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
    for step in range(6):
        w = body.weight
        v.data = F.normalize(w.data.T @ u.data, dim=0)
        u.data = F.normalize(w.data @ v.data, dim=0)
        h = torch.relu(F.linear(torch.randn(8, 4), w / (u @ (w @ v)), body.bias))
        loss = head(h).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    first, second = mlp(4, 8, 8), nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.Linear(8, 2))
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-2)
    for step in range(6):
        h = checkpoint(first, torch.randn(8, 4), use_reentrant=False)
        loss = checkpoint(second, h, use_reentrant=True).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def maml():
    net = mlp(2, 8, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(4):
        total = 0.0
        for _ in range(2):
            x = torch.randn(6, 2)
            names, values = zip(*net.named_parameters(), strict=True)
            inner = (
                torch.func.functional_call(net, dict(zip(names, values, strict=True)), x)
                .square()
                .mean()
            )
            grads = torch.autograd.grad(inner, values, create_graph=True)
            moved = {n: v - 0.1 * g for n, v, g in zip(names, values, grads, strict=True)}
            total = total + torch.func.functional_call(net, moved, x).square().mean()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        print(step, total.item())


def lstm():
    rnn, head = nn.LSTM(3, 6, num_layers=2, dropout=0.1), nn.Linear(6, 2)
    optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-2)
    state = None
    for step in range(6):
        y, state = rnn(torch.randn(5, 4, 3), state)
        state = tuple(s.detach() for s in state)
        loss = head(y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def gumbel():
    net, table = mlp(4, 8, 5), nn.Parameter(torch.randn(5, 3))
    optimizer = torch.optim.Adam([*net.parameters(), table], lr=1e-2)
    for step in range(6):
        hard = F.gumbel_softmax(net(torch.randn(8, 4)), hard=True)
        loss = (hard @ table).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def amp():
    net = mlp(4, 8, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(6):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(torch.randn(8, 4))
            logits = logits - logits.detach().amax(-1, keepdim=True)
        loss = F.cross_entropy(logits.float(), torch.randint(3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


def lbfgs():
    net = mlp(4, 8, 1)
    x, y = torch.randn(20, 4), torch.randn(20, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        return loss

    for step in range(4):
        print(step, optimizer.step(closure).item())


def first_order():
    """Copies are adapted through `.data`, and their gradients handed on."""
    net = mlp(4, 8, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    x, y = torch.randn(20, 4), torch.randn(20, 1)
    for step in range(5):
        optimizer.zero_grad()
        fast = copy.deepcopy(net)
        grads = torch.autograd.grad(F.mse_loss(fast(x), y), list(fast.parameters()))
        for p, g in zip(fast.parameters(), grads, strict=True):
            p.data -= 0.1 * g
        loss = F.mse_loss(fast(x), y)
        loss.backward()
        for p, q in zip(net.parameters(), fast.parameters(), strict=True):
            p.grad = q.grad
        optimizer.step()
        print(step, loss.item())


CASES = [f for f in list(globals().values()) if getattr(f, "__module__", "") == __name__]
CASES = {f.__name__: f for f in CASES if callable(f) and f.__name__ != "mlp"}

if __name__ == "__main__":
    CASES[sys.argv[1]]()
