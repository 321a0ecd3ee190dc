"""Programs that compute a known formula, and small mistakes in them: (as it is, as it is wrong)."""

from __future__ import annotations

from dataclasses import dataclass

NUMPY = "import numpy as np\nrng = np.random.default_rng(0)\n"
TORCH = "import torch\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"


@dataclass(frozen=True)
class Program:
    """A program, and mistakes that may be planted in it."""

    name: str
    text: str
    mistakes: tuple[tuple[str, str], ...]


PROGRAMS = (
    Program("pinball in a function", TORCH + """
def pinball(pred, target, q):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()

pinball(torch.randn(20, 3), torch.randn(20), torch.tensor([0.1, 0.5, 0.9]))
""", (("target.unsqueeze(-1) - pred", "pred - target.unsqueeze(-1)"),
      ("torch.maximum", "torch.minimum"), ("(q - 1) * err", "(q + 1) * err"))),
    Program("pinball in a class, with NumPy", NUMPY + """
class QuantileLoss:
    def __init__(self, tau):
        self.tau = tau

    def __call__(self, y, yhat):
        diff = y - yhat
        return np.where(diff > 0, self.tau * diff, (self.tau - 1) * diff).mean()

QuantileLoss(0.8)(rng.normal(size=30), rng.normal(size=30))
""", (("y - yhat", "yhat - y"), ("diff > 0", "diff < 0"))),
    Program("returns by a loop", TORCH + """
def discounted(rewards, gamma=0.9):
    returns, acc = [], 0.0
    for r in reversed(rewards):
        acc = r + gamma * acc
        returns.insert(0, acc)
    return torch.tensor(returns)

discounted([0.3, -0.2, 1.0, 0.4, 0.1, -0.7, 0.2], 0.8)
""", (("returns.insert(0, acc)", "returns.append(acc)"),
      ("gamma * acc", "acc / gamma"))),
    Program("returns into an array", NUMPY + """
def discount_rewards(r, gamma):
    out, running = np.zeros_like(r), 0.0
    for t in range(len(r) - 1, -1, -1):
        running = running * gamma + r[t]
        out[t] = running
    return out

discount_rewards(rng.normal(size=9), 0.9)
""", (("running * gamma + r[t]", "running * gamma - r[t]"),)),
    Program("advantages", NUMPY + """
def gae(rewards, values, dones, last_value, gamma=0.98, lam=0.95):
    adv, running = np.zeros(len(rewards)), 0.0
    for t in reversed(range(len(rewards))):
        nxt = last_value if t == len(rewards) - 1 else values[t + 1]
        nonterminal = 1.0 - dones[t]
        delta = rewards[t] + gamma * nxt * nonterminal - values[t]
        running = delta + gamma * lam * nonterminal * running
        adv[t] = running
    return adv

done = (np.arange(40) % 7 == 6).astype(float)
gae(rng.normal(size=40), rng.normal(size=40), done, 0.3)
""", (("gamma * lam * nonterminal * running", "gamma * lam * running"),
      ("nonterminal - values[t]", "nonterminal + values[t]"))),
    Program("velocity in a step", TORCH + """
abar = torch.linspace(0.95, 0.05, 50)

def step(x0):
    t = torch.randint(0, 50, (len(x0),))
    noise = torch.randn_like(x0)
    alpha = abar[t].sqrt()[:, None]
    sigma = (1 - abar[t]).sqrt()[:, None]
    v_target = alpha * noise - sigma * x0
    return v_target

step(torch.randn(12, 4))
""", (("alpha * noise - sigma * x0", "sigma * noise - alpha * x0"),
      ("alpha * noise - sigma * x0", "alpha * noise + sigma * x0"))),
    Program("a divergence, inline", TORCH + """
for step in range(3):
    mu, logvar = torch.randn(8, 4), torch.randn(8, 4)
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(-1).mean()
    (kl + 1.0).backward() if kl.requires_grad else None
""", (("- mu.pow(2)", "+ mu.pow(2)"), ("1 + logvar", "1 - logvar"))),
)  # fmt: skip
