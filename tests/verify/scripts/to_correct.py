"""Scripts with a mistake each, its code, and what the corrected text must contain."""

from __future__ import annotations

START = """
import torch
from torch import nn
import torch.nn.functional as F
torch.manual_seed(3)
X, Y = torch.randn(64, 6), torch.randn(64, 1)
C = torch.randint(0, 3, (64,))
"""
CLIP = """
def train(net, data):
    optimizer = torch.optim.AdamW(net.parameters())
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    for xs, ys in data:
        optimizer.zero_grad(set_to_none=True)
        grad_scaler.scale(F.mse_loss(net(xs), ys)).backward()
        torch.nn.utils.clip_grad_value_(net.parameters(), 0.5)
        grad_scaler.step(optimizer)
        grad_scaler.update()
train(nn.Linear(6, 1), [(X, Y)] * 5)
"""
DECORATED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 9)
        self.head = nn.Linear(9, 1)

    @torch.no_grad()
    def features(self, x):
        return torch.relu(self.stem(x))

    def forward(self, x):
        return self.head(self.features(x))
net = Net()
opt = torch.optim.Adam(net.parameters())
for epoch in range(4):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
REG_ITEM = """
net = nn.Linear(6, 1)
opt = torch.optim.Adam(net.parameters())
for epoch in range(4):
    opt.zero_grad()
    penalty = float(net.weight.abs().sum())
    loss = F.mse_loss(net(X), Y) + 0.01 * penalty
    loss.backward()
    opt.step()
"""
DICT_LAYERS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["a", "b"]
        self.parts = {name: nn.Linear(6, 6) for name in self.names}
        self.last = nn.Linear(6, 1)

    def forward(self, x):
        for name in self.names:
            x = torch.tanh(self.parts[name](x))
        return self.last(x)
net = Net()
opt = torch.optim.Adam(net.parameters())
for epoch in range(4):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
GROUPS = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 9), nn.Linear(9, 9), nn.Linear(9, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))
net = Net()
slow = {"params": net.a.parameters(), "lr": 1e-4}
opt = torch.optim.Adam([slow, {"params": net.b.parameters()}], lr=1e-3)
for epoch in range(4):
    opt.zero_grad()
    net.c.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
TEACHER = """
student, other = nn.Linear(6, 3), nn.Linear(6, 3)
opt = torch.optim.SGD(other.parameters(), lr=0.1)
for epoch in range(4):
    opt.zero_grad()
    F.cross_entropy(student(X), C).backward()
    opt.step()
"""
ADDED = """
class Layer(nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(n, m) / n)
        self.rho = nn.Parameter(torch.full((n, m), -2.0))

    def posterior(self):
        return torch.distributions.Normal(self.mean, F.softplus(self.rho))

    def forward(self, x):
        return x @ self.posterior().rsample()
a, b = Layer(6, 8), Layer(8, 1)
opt = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=0.01)
prior = torch.distributions.Normal(0.0, 1.0)
for epoch in range(4):
    opt.zero_grad()
    fit = F.mse_loss(b(torch.tanh(a(X))), Y)
    with torch.no_grad():
        far = sum(torch.distributions.kl_divergence(m.posterior(), prior).sum() for m in (a, b))
    loss = fit + far / 64
    loss.backward()
    opt.step()
"""
LISTED = """
net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(4):
    said = []
    for x, c in zip(X[:12], C):
        law = torch.distributions.Categorical(logits=net(x))
        said.append(law.log_prob(law.sample()))
    likely = torch.tensor(said, requires_grad=True)
    opt.zero_grad()
    (-likely * Y[:12, 0]).mean().backward()
    opt.step()
"""
IN_NUMPY = """
import numpy as np
q, k, v = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(6, 1)
opt = torch.optim.Adam([*q.parameters(), *k.parameters(), *v.parameters()], lr=0.01)
def mixed(x):
    scores = (q(x) @ k(x).T).detach().numpy()
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    scores = scores / scores.sum(axis=1, keepdims=True)
    return torch.from_numpy(scores) @ v(x)
for epoch in range(4):
    opt.zero_grad()
    F.mse_loss(mixed(X), Y).backward()
    opt.step()
"""
METER = """
class Meter:
    def __init__(self):
        self.total = 0.0
    def add(self, value):
        self.total = self.total + value
net, meter = nn.Linear(6, 1), Meter()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(6):
    loss = F.mse_loss(net(X), Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.add(loss)
"""
LAYER_LIST = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.seen = nn.Linear(6, 8), nn.Linear(8, 1), []
    def forward(self, x):
        h = torch.tanh(self.a(x))
        self.seen.append(h)
        return self.b(h)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(6):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
HISTORY = """
from collections import defaultdict
history = defaultdict(list)
def record(name, value):
    history[name].append(value)
net = nn.Linear(6, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(6):
    loss = F.mse_loss(net(X), Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    record("loss", loss)
"""
SHARED_WEIGHTS = """
class Weighed(torch.autograd.Function):
    @staticmethod
    def forward(x, weights, power):
        return (x * weights) ** power

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weights, power = inputs
        ctx.save_for_backward(x)
        ctx.weights, ctx.power = weights, power

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        inner = x * ctx.weights
        return g * ctx.power * inner ** (ctx.power - 1) * ctx.weights, None, None

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 1)
        self.register_buffer("room", torch.ones(5))
    def weigh(self, h):
        self.room.data.copy_(1 + h.detach().abs().mean(0))
        return Weighed.apply(h, self.room, 3)
    def forward(self, x):
        return self.c(self.weigh(torch.tanh(self.b(self.weigh(torch.tanh(self.a(x)))))))

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for epoch in range(4):
    opt.zero_grad()
    F.mse_loss(net(X), Y).backward()
    opt.step()
"""
WINDOW = """
import numpy as np
window, shown = np.zeros((64, 6), np.float32), np.ones(3, np.float32)
net = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(5):
    np.add(window, X.numpy(), out=window)
    out = net(torch.as_tensor(window[:, ::1])) + torch.from_numpy(shown).sum()
    window.fill(0.5)
    loss = F.mse_loss(out, Y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
WRONG = [
    (SHARED_WEIGHTS, "unseen_change", "ctx.weights, ctx.power = weights.clone(), power"),
    (LISTED, "detached", "likely = torch.stack(said)"),
    (IN_NUMPY, "detached", "torch.exp(scores - scores.amax(dim=1, keepdim=True))"),
    (METER, "graph_kept", "meter.add(loss.detach())"),
    (LAYER_LIST, "graph_kept", "self.seen.append(h.detach())"),
    (HISTORY, "graph_kept", "history[name].append(value.detach())"),
    (ADDED, "partly_detached", "    far = sum(torch.distributions"),
    (WINDOW, "unseen_change", "torch.as_tensor(window[:, ::1].copy())) + torch.from_numpy(shown)"),
    (CLIP, "clip_scaled", "grad_scaler.unscale_(optimizer)"),
    (DECORATED, "detached", "    def features(self, x):"),
    (REG_ITEM, "partly_detached", "penalty = net.weight.abs().sum()"),
    (DICT_LAYERS, "not_optimized", "nn.ModuleDict({name:"),
    (GROUPS, "not_optimized", '{"params": net.c.parameters()}]'),
    (TEACHER, "not_optimized", "SGD(student.parameters()"),
]
