"""Programs that compute formulas of the table, each written as its own user writes: with PyTorch,
with NumPy, with lists of numbers. `ROWS` are right and have mistakes that may be planted; `NEAR`
are right as well, each a small change away from a row that it is not meant to be."""

from __future__ import annotations

from dataclasses import dataclass

NUMPY = "import numpy as np\nrng = np.random.default_rng(0)\n"
TORCH = "import torch\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"
PLAIN = "import math, random\nrandom.seed(0)\n"


@dataclass(frozen=True)
class Program:
    """A program that leaves a value of a row in `result`."""

    name: str
    row: str
    """Name of the formula; empty for none."""
    args: str
    """Its arguments, as the program calls them."""
    text: str
    mistakes: tuple[tuple[str, str], ...] = ()
    """What stands in the text, and what makes it wrong."""


ROWS = (
    Program("divergence of a batch, PyTorch", "KL to the standard normal by log-variance",
            "mu, logvar", TORCH + """
mu, logvar = torch.randn(16, 4), 0.3 * torch.randn(16, 4)

def kl_divergence(mu, logvar):
    return -0.5 * torch.sum(1 + logvar - mu ** 2 - torch.exp(logvar), dim=1).mean()

result = kl_divergence(mu, logvar)
""", (("- mu ** 2", "+ mu ** 2"), ("1 + logvar", "1 - logvar"),
      ("torch.exp(logvar)", "torch.exp(2 * logvar)"))),
    Program("divergence by deviations, NumPy", "KL to the standard normal by deviation",
            "mean, std, 0.0", NUMPY + """
mean, std = rng.normal(size=(9, 3)), rng.uniform(0.5, 1.5, (9, 3))

class Prior:
    def kl(self, mean, std):
        return (0.5 * (std ** 2 + mean ** 2 - 1) - np.log(std)).sum(-1)

result = Prior().kl(mean, std)
""", (("- np.log(std)", "+ np.log(std)"), ("std ** 2 + mean", "std + mean"))),
    Program("divergence in a loop over lists", "KL to the standard normal by log-variance",
            "means, logvars", PLAIN + """
means = [random.gauss(0, 1) for _ in range(12)]
logvars = [random.gauss(0, 0.5) for _ in range(12)]

def kl_loss(means, logvars):
    total = 0.0
    for m, lv in zip(means, logvars):
        total += 0.5 * (math.exp(lv) + m * m - 1.0 - lv)
    return total / len(means)

result = kl_loss(means, logvars)
""", (("- 1.0 - lv", "- 1.0 + lv"), ("math.exp(lv) + m * m", "math.exp(lv) - m * m"))),
    Program("generalized IoU, PyTorch", "generalized intersection over union of corners",
            "pred, gt, 0.0", TORCH + """
pred = torch.rand(10, 4) + torch.tensor([0.0, 0.0, 1.2, 1.2])
gt = torch.rand(10, 4) + torch.tensor([0.0, 0.0, 1.2, 1.2])

def giou_loss(pred, gt):
    lt = torch.max(pred[:, :2], gt[:, :2])
    rb = torch.min(pred[:, 2:], gt[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, 0] * wh[:, 1]
    area_p = (pred[:, 2] - pred[:, 0]) * (pred[:, 3] - pred[:, 1])
    area_g = (gt[:, 2] - gt[:, 0]) * (gt[:, 3] - gt[:, 1])
    union = area_p + area_g - inter
    outer = torch.max(pred[:, 2:], gt[:, 2:]) - torch.min(pred[:, :2], gt[:, :2])
    hull = outer[:, 0] * outer[:, 1]
    giou = inter / union - (hull - union) / hull
    return (1 - giou).mean()

result = giou_loss(pred, gt)
""", (("area_p + area_g - inter", "area_p + area_g + inter"),
      ("(hull - union) / hull", "(hull - union) / union"),
      ("lt = torch.max(pred[:, :2]", "lt = torch.min(pred[:, :2]"))),
    Program("IoU of all pairs, NumPy", "intersection over union of corners",
            "boxes, others, 0.0", NUMPY + """
boxes = rng.uniform(0, 0.5, (5, 4)) + np.array([0, 0, 1, 1])
others = rng.uniform(0, 0.5, (7, 4)) + np.array([0, 0, 1, 1])

def box_iou(boxes, others):
    x1 = np.maximum(boxes[:, None, 0], others[None, :, 0])
    y1 = np.maximum(boxes[:, None, 1], others[None, :, 1])
    x2 = np.minimum(boxes[:, None, 2], others[None, :, 2])
    y2 = np.minimum(boxes[:, None, 3], others[None, :, 3])
    inter = np.clip(x2 - x1, 0, None) * np.clip(y2 - y1, 0, None)
    a = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    b = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return inter / (a[:, None] + b[None] - inter)

result = box_iou(boxes, others)
""", (("+ b[None] - inter", "+ b[None] + inter"), ("x2 = np.minimum", "x2 = np.maximum"))),
    Program("Cox loss of sorted patients, PyTorch", "Cox partial likelihood of sorted times",
            "risk, event", TORCH + """
risk, event = torch.randn(20), (torch.arange(20) % 3 != 0).float()

def cox_ph_loss(risk, event):
    log_cumsum = torch.logcumsumexp(risk, dim=0)
    return -((risk - log_cumsum) * event).sum() / event.sum()

result = cox_ph_loss(risk, event)
""", (("(risk - log_cumsum)", "(risk + log_cumsum)"),
      ("torch.logcumsumexp(risk, dim=0)", "torch.logcumsumexp(risk.flip(0), dim=0).flip(0)"))),
    Program("Cox loss, case by case", "Cox partial likelihood", "risk, time, event", NUMPY + """
risk, time = rng.normal(size=12), rng.uniform(1, 9, 12)
event = (np.arange(12) % 4 != 1).astype(float)

def neg_partial_likelihood(risk, time, event):
    loss = 0.0
    for i in range(len(risk)):
        at_risk = time >= time[i]
        loss -= event[i] * (risk[i] - np.log(np.exp(risk[at_risk]).sum()))
    return loss / event.sum()

result = neg_partial_likelihood(risk, time, event)
""", (("time >= time[i]", "time <= time[i]"), ("(risk[i] - np.log", "(risk[i] + np.log"))),
    Program("focal loss, PyTorch", "focal loss of logits", "logits, targets, alpha, gamma",
            TORCH + """
logits, targets = torch.randn(30), (torch.rand(30) < 0.3).float()
alpha, gamma = 0.25, 2.0

def sigmoid_focal_loss(logits, targets, alpha, gamma):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return (alpha_t * (1 - p_t) ** gamma * ce).mean()

result = sigmoid_focal_loss(logits, targets, alpha, gamma)
""", (("(1 - p_t) ** gamma", "p_t ** gamma"), ("(1 - p) * (1 - targets)", "(1 - p) * targets"),
      ("alpha * targets + (1 - alpha)", "alpha * targets + alpha"))),
    Program("preferences, PyTorch", "DPO loss", "pi_w, pi_l, ref_w, ref_l, beta", TORCH + """
pi_w, pi_l, ref_w, ref_l = (-torch.rand(8) * 5 for _ in range(4))
beta = 0.3

def dpo_loss(pi_w, pi_l, ref_w, ref_l, beta):
    chosen = pi_w - ref_w
    rejected = pi_l - ref_l
    return -F.logsigmoid(beta * (chosen - rejected)).mean()

result = dpo_loss(pi_w, pi_l, ref_w, ref_l, beta)
""", (("chosen - rejected", "chosen + rejected"), ("pi_l - ref_l", "ref_l - pi_l"))),
    Program("preferences, lists", "DPO loss", "policy_chosen, policy_rejected, ref_chosen, "
            "ref_rejected, beta", PLAIN + """
policy_chosen = [-random.uniform(1, 5) for _ in range(6)]
policy_rejected = [-random.uniform(1, 5) for _ in range(6)]
ref_chosen = [-random.uniform(1, 5) for _ in range(6)]
ref_rejected = [-random.uniform(1, 5) for _ in range(6)]
beta = 0.1

def preference_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta):
    losses = []
    for pc, pr, rc, rr in zip(policy_chosen, policy_rejected, ref_chosen, ref_rejected):
        margin = (pc - pr) - (rc - rr)
        losses.append(math.log(1 + math.exp(-beta * margin)))
    return sum(losses) / len(losses)

result = preference_loss(policy_chosen, policy_rejected, ref_chosen, ref_rejected, beta)
""", (("(pc - pr) - (rc - rr)", "(pc - pr) + (rc - rr)"),)),
    Program("clipped objective, PyTorch", "clipped policy objective",
            "logp, old_logp, adv, clip_eps", TORCH + """
logp = -torch.rand(40)
old_logp = logp + 0.3 * torch.randn(40)
adv, clip_eps = torch.randn(40), 0.2

def ppo_loss(logp, old_logp, adv, clip_eps):
    ratio = (logp - old_logp).exp()
    clipped = ratio.clamp(1 - clip_eps, 1 + clip_eps)
    return -torch.min(ratio * adv, clipped * adv).mean()

result = ppo_loss(logp, old_logp, adv, clip_eps)
""", (("torch.min(ratio", "torch.max(ratio"), ("(logp - old_logp)", "(old_logp - logp)"))),
    Program("double Q-learning, PyTorch", "target of double Q-learning",
            "rewards, dones, q_online, q_target, gamma", TORCH + """
rewards, dones = torch.randn(12), (torch.arange(12) % 4 == 3).float()
q_online, q_target, gamma = torch.randn(12, 3), torch.randn(12, 3), 0.97

def td_target(rewards, dones, q_online, q_target, gamma):
    best = q_online.argmax(dim=1, keepdim=True)
    next_q = q_target.gather(1, best).squeeze(1)
    return rewards + gamma * (1 - dones) * next_q

result = td_target(rewards, dones, q_online, q_target, gamma)
""", (("(1 - dones)", "dones"), ("rewards + gamma", "rewards - gamma"),
      ("q_online.argmax", "q_online.argmin"))),
    Program("Q-learning by batches, NumPy", "Q-learning target", "r, done, q_next, gamma",
            NUMPY + """
r, done = rng.normal(size=15), (np.arange(15) % 5 == 4).astype(float)
q_next, gamma = rng.normal(size=(15, 4)), 0.9

def bellman_targets(r, done, q_next, gamma):
    return r + (1.0 - done) * gamma * np.max(q_next, axis=1)

result = bellman_targets(r, done, q_next, gamma)
""", (("np.max(q_next, axis=1)", "np.min(q_next, axis=1)"), ("(1.0 - done)", "(1.0 + done)"))),
    Program("contrasted views, PyTorch", "NT-Xent", "z1, z2, temperature", TORCH + """
z1, z2, temperature = torch.randn(8, 5), torch.randn(8, 5), 0.5

def nt_xent(z1, z2, temperature):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.T / temperature
    sim = sim.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    labels = (torch.arange(len(z)) + len(z1)) % len(z)
    return F.cross_entropy(sim, labels)

result = nt_xent(z1, z2, temperature)
""", (("z @ z.T / temperature", "z @ z.T * temperature"), ("dim=1)", "dim=0)"))),
    Program("normalized adjacency, NumPy", "normalized adjacency", "adj", NUMPY + """
adj = (rng.uniform(size=(9, 9)) < 0.4).astype(float)
adj = np.maximum(adj, adj.T)
np.fill_diagonal(adj, 0)

def normalize_adj(adj):
    adj = adj + np.eye(len(adj))
    d_inv_sqrt = adj.sum(1) ** -0.5
    return d_inv_sqrt[:, None] * adj * d_inv_sqrt[None, :]

result = normalize_adj(adj)
""", (("adj.sum(1) ** -0.5", "adj.sum(1) ** 0.5"),
      ("d_inv_sqrt[:, None] * adj", "d_inv_sqrt[:, None] + adj"))),
    Program("warm-up and cosine, plain", "warm-up and cosine",
            "np.array(steps), warmup_steps, max_steps", PLAIN + """
import numpy as np
steps, warmup_steps, max_steps = list(range(0, 100, 3)), 10, 100

def lr_lambda(step):
    if step < warmup_steps:
        return step / warmup_steps
    progress = (step - warmup_steps) / (max_steps - warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * progress))

result = [lr_lambda(s) for s in steps]
""", (("1.0 + math.cos", "1.0 - math.cos"), ("(step - warmup_steps)", "(step + warmup_steps)"))),
    Program("schedule of the transformer, PyTorch", "Noam schedule", "steps, warmup", TORCH + """
steps, warmup, d_model = torch.arange(1.0, 400.0, 7.0), 100, 64

def noam_lr(steps, d_model, warmup):
    return d_model ** -0.5 * torch.minimum(steps ** -0.5, steps * warmup ** -1.5)

result = noam_lr(steps, d_model, warmup)
""", (("torch.minimum", "torch.maximum"), ("warmup ** -1.5", "warmup ** -0.5"))),
    Program("planar flow, PyTorch", "log-determinant of a planar flow", "z, u, w, b, 0.0",
            TORCH + """
z, u, w, b = torch.randn(10, 3), torch.randn(3), torch.randn(3), 0.4

def planar_log_det(z, u, w, b):
    h = torch.tanh(z @ w + b)
    psi = (1 - h ** 2)[:, None] * w
    return torch.log(torch.abs(1 + psi @ u))

result = planar_log_det(z, u, w, b)
""", (("1 - h ** 2", "1 + h ** 2"), ("torch.abs(1 + psi @ u)", "torch.abs(1 - psi @ u)"))),
    Program("DDIM, PyTorch", "DDIM step", "x_t, eps, a_t, a_prev", TORCH + """
x_t, eps, a_t, a_prev = torch.randn(6, 5), torch.randn(6, 5), 0.4, 0.7

def ddim_step(x_t, eps, a_t, a_prev):
    x0 = (x_t - (1 - a_t) ** 0.5 * eps) / a_t ** 0.5
    return a_prev ** 0.5 * x0 + (1 - a_prev) ** 0.5 * eps

result = ddim_step(x_t, eps, a_t, a_prev)
""", (("(x_t - (1 - a_t)", "(x_t + (1 - a_t)"), ("(1 - a_prev) ** 0.5", "(1 - a_prev)"))),
    Program("option prices, NumPy", "price of a call", "S, K, T, r, sigma", NUMPY + """
from scipy.stats import norm
S, K, T = rng.uniform(80, 120, 9), rng.uniform(80, 120, 9), rng.uniform(0.5, 2, 9)
r, sigma = 0.05, 0.2

def black_scholes_call(S, K, T, r, sigma):
    d1 = (np.log(S / K) + (r + 0.5 * sigma ** 2) * T) / (sigma * np.sqrt(T))
    d2 = d1 - sigma * np.sqrt(T)
    return S * norm.cdf(d1) - K * np.exp(-r * T) * norm.cdf(d2)

result = black_scholes_call(S, K, T, r, sigma)
""", (("(r + 0.5 * sigma ** 2)", "(r - 0.5 * sigma ** 2)"),
      ("d1 - sigma * np.sqrt(T)", "d1 + sigma * np.sqrt(T)"), ("np.exp(-r * T)", "np.exp(r * T)"))),
    Program("normalized layers in a class, NumPy", "layer normalization with weights",
            "x, norm.scale, norm.shift, norm.eps", NUMPY + """
class LayerNorm:
    def __init__(self, width, eps=1e-5):
        self.scale, self.shift = rng.normal(size=width), rng.normal(size=width)
        self.eps = eps

    def __call__(self, x):
        mean = x.mean(axis=-1, keepdims=True)
        var = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        return self.scale * (x - mean) / np.sqrt(var + self.eps) + self.shift

norm = LayerNorm(6)
x = rng.normal(size=(5, 6))
result = norm(x)
""", (("self.scale * (x - mean)", "self.scale * (x + mean)"),
      ("/ np.sqrt(var + self.eps)", "/ (var + self.eps)"))),
    Program("running moments, plain", "update of mean and squares", "0.4, 3.0, 1.7, 6.0",
            PLAIN + """
def welford_update(mean, m2, value, count):
    count = count + 1
    delta = value - mean
    mean = mean + delta / count
    m2 = m2 + delta * (value - mean)
    return mean, m2

result = welford_update(0.4, 3.0, 1.7, 6.0)
""", (("mean + delta / count", "mean + delta * count"), ("m2 + delta", "m2 - delta"))),
)  # fmt: skip

NEAR = (
    Program("errors that are weighed", "", "", TORCH + """
pred, target, w = torch.randn(12, 3), torch.randn(12, 3), torch.rand(12, 3)

def weighted_mse(pred, target, w):
    return (w * (pred - target) ** 2).mean()

result = weighted_mse(pred, target, w)
"""),
    Program("advantages as weights", "", "", TORCH + """
logp, adv, beta = -torch.rand(20), torch.randn(20), 2.0

def awr_policy_loss(logp, adv, beta):
    return -(torch.exp(adv / beta).clamp(max=20.0) * logp).mean()

result = awr_policy_loss(logp, adv, beta)
"""),
    Program("targets after three steps", "", "", NUMPY + """
rewards, done = rng.normal(size=10), (np.arange(10) % 4 == 3).astype(float)
next_q, gamma, n = rng.normal(size=(10, 3)), 0.9, 3

def n_step_td_target(rewards, done, next_q, gamma, n):
    return rewards + gamma ** n * (1 - done) * next_q.max(axis=1)

result = n_step_td_target(rewards, done, next_q, gamma, n)
"""),
    Program("free bits", "", "", TORCH + """
mu, logvar, free = torch.randn(16, 4), 0.3 * torch.randn(16, 4), 0.25

def kl_with_free_bits(mu, logvar, free):
    kl = 0.5 * (mu ** 2 + logvar.exp() - 1 - logvar).mean(0)
    return kl.clamp(min=free).sum()

result = kl_with_free_bits(mu, logvar, free)
"""),
    Program("a motion by half-implicit steps", "", "", NUMPY + """
x, v, a, dt = rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), rng.normal(size=(5, 2)), 0.1

def symplectic_euler(x, v, a, dt):
    v = v + a * dt
    x = x + v * dt
    return x, v

result = symplectic_euler(x, v, a, dt)
"""),
    Program("attention without a scale", "", "", TORCH + """
q, k, v = torch.randn(4, 6), torch.randn(4, 6), torch.randn(4, 6)

def dot_attention(q, k, v):
    return torch.softmax(q @ k.T, dim=-1) @ v

result = dot_attention(q, k, v)
"""),
    Program("a learned width", "", "", TORCH + """
x, y, log_sigma = torch.randn(7, 3), torch.randn(5, 3), torch.tensor(0.4)

def rbf_kernel(x, y, log_sigma):
    return torch.exp(-torch.cdist(x, y) ** 2 / (2 * torch.exp(log_sigma) ** 2))

result = rbf_kernel(x, y, log_sigma)
"""),
    Program("densities that are made positive", "", "", TORCH + """
raw, rgb, deltas = torch.randn(6, 9), torch.rand(6, 9, 3), torch.rand(6, 9)

def render_rays(raw, rgb, deltas):
    alpha = 1 - torch.exp(-F.relu(raw) * deltas)
    trans = torch.cumprod(torch.cat([torch.ones(6, 1), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    return ((alpha * trans)[..., None] * rgb).sum(1)

result = render_rays(raw, rgb, deltas)
"""),
    Program("a rate that falls by a line", "", "", PLAIN + """
total = 50

def lr_at(step):
    return 0.01 * (1 - step / total)

result = [lr_at(s) for s in range(0, 50, 4)]
"""),
    Program("next tokens", "", "", TORCH + """
logits, tokens = torch.randn(2, 7, 5), torch.randint(0, 5, (2, 7))

def lm_loss(logits, tokens):
    logp = logits[:, :-1].log_softmax(-1)
    return -logp.gather(-1, tokens[:, 1:, None]).squeeze(-1).mean()

result = lm_loss(logits, tokens)
"""),
)  # fmt: skip
