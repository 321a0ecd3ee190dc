"""Slips that a script's text shows by itself, and right text that comes near."""

from __future__ import annotations

import ast

import pytest

from chainrule.verify.script.slips.rows import ROWS

MASKED = """
class Quantize(Function):
    def forward(ctx, x, lo, hi):
        r = torch.round(x)
        q = torch.clamp(r, lo, hi)
        ctx.save_for_backward(x, {kept})
        ctx.lo, ctx.hi = lo, hi
        return q
    def backward(ctx, g):
        x, v = ctx.saved_tensors
        return g * ((v {at_least} ctx.lo) & (v <= ctx.hi)), None, None
"""
NESTEROV = """
def step(w, g, kept):
    v = kept.setdefault("v", np.zeros_like(w))
    old = v
    v *= 0.9
    v -= 0.1 * g
    return w - 0.9 * old + 1.9 * v
"""
WRONG = {
    "for p, g in zip(ps, gs):\n    p = p - lr * g": "lost_updates",
    "for a, b in zip(new, old):\n    a = b.detach().clone()": "lost_updates",
    "def f(a, b):\n    new, old = a.state_dict(), b.state_dict()\n    own = a.state_dict()\n"
    "    for k in old:\n        own[k] = 0.9 * own[k] + 0.1 * old[k]": "lost_updates",
    "sd = net.state_dict()\nfor k, v in sd.items():\n    if v.ndim:\n"
    "        sd[k] = v / 2": "lost_updates",
    "net.state_dict()['out.weight'] = other['out.weight']": "lost_updates",
    "for p, m in zip(ps, ms):\n    t += 1\n    h = m / (1 - b ** t)\n"
    "    p -= lr * h": "wrong_update",
    "for k, g in gs.items():\n    self.t += 1\n    m[k] = b * m[k] + g\n"
    "    h = m[k] / (1 - b ** self.t)\n    ps[k] -= lr * h": "wrong_update",
    "for i, p in enumerate(ps):\n    t += 1\n    p.sub_(lr * m[i] / (1 - b ** t))": "wrong_update",
    "class GradReverse(Function):\n    def forward(ctx, x, a):\n        return x\n"
    "    def backward(ctx, g):\n        return g * ctx.a, None": "sign",
    "def beta(step):\n    return CFG['beta'] * min(1, step // CFG['warmup'])": "wrong_value",
    "rate = 0.1 * max(0.0, 1 - step // total)": "wrong_value",
    MASKED.format(kept="q", at_least=">="): "region",
    NESTEROV: "stale",
    "import numpy as np\ndef f(gs):\n    for k in gs:\n        np.clip(gs[k], -1, 1)": "unused",
    "import numpy as np\nfor g in gs:\n    np.multiply(g, s)": "unused",
    "def f(x):\n    x.reshape(len(x), -1)\n    return x": "unused",
}  # fmt: skip
RIGHT = [
    "import numpy as np\ndef f(x):\n    np.nan_to_num(x, copy=False)\n    return x",
    "def test_runs(x):\n    x.transpose()",
    NESTEROV.replace("= v\n", "= v.copy()\n"),
    NESTEROV.replace("np.zeros_like(w)", "0.0"),
    NESTEROV.replace("v *= 0.9", "v = 0.9 * v"),
    NESTEROV.replace("- 0.9 * old ", ""),
    "import numpy as np\ndef f(gs):\n    for k in gs:\n        np.clip(gs[k], -1, 1, out=gs[k])",
    "import numpy as np\ndef f(gs):\n    for g in gs:\n        np.clip(g, -1, 1, g)",
    "import numpy as np\nfor g in gs:\n    np.multiply(g, s, g)",
    "import numpy as np\nfor g in gs:\n    np.add.at(g, i, s)\n    np.copyto(g, h)",
    "import numpy as np\nX.reshape(3, 4)\nnp.clip(x, 0, 1)",
    "import numpy as np\ndef f(x):\n    t = time.time()\n    np.sin(x)\n    return time.time() - t",
    "import numpy as np\ndef f(x):\n    with raises(ValueError):\n        x.reshape(7)",
    "class A:\n    def reshape(self, n):\n        self.n = n\ndef f(a):\n    a.reshape(3)",
    "beta = min(1, step / warmup)",
    "workers = max(1, count // 2)",
    "part = min(length, step // 2)",
    MASKED.format(kept="r", at_least=">="),
    MASKED.format(kept="q", at_least=">"),
    "for p, g in zip(ps, gs):\n    p = p - lr * g\n    out.append(p)",
    "for p, g in zip(ps, gs):\n    p -= lr * g",
    "sd = a.state_dict()\nfor k in sd:\n    sd[k] = sd[k] / 2\na.load_state_dict(sd)",
    "def f(a):\n    sd = a.state_dict()\n    sd['x'] = sd['y']\n    return sd",
    "sd = a.state_dict()\nsd['x'] = 1 * sd['x']\nfor k, p in a.named_parameters():\n"
    "    p.data.copy_(sd[k])",
    "sd = a.state_dict()\nfor k in sd:\n    sd[k] = sd[k].cpu()\nsave(sd, 'a.pt')",
    "sd = a.state_dict()\nfor k in sd:\n    sd[k].copy_(0.9 * sd[k] + 0.1 * b[k])",
    "sd = a.state_dict()\nfor k in sd:\n    sd[k] *= 0.9\n    sd[k] += 0.1 * b[k]",
    "sd = a.state_dict()\nfor k in sd:\n    sd[k] = sd[k].mul_(0.9).add_(b[k])",
    "sd = a.state_dict()\nsd['x'] = y\nkeep = {k: v for k, v in sd.items()}",
    "class A:\n    def state_dict(self):\n        return self.values\nA().state_dict()['x'] = 1",
    "for a, b in zip(xs, ys):\n    a = b.clone()\n    keep(a)",
    "for a, b in zip(xs, ys):\n    a = b.strip()",
    "for x, y in loader:\n    t += 1\n    m = b * m + g\n    w -= lr * m / (1 - b ** t)",
    "for i in range(9):\n    t += 1\n    w[i] -= lr * m[i] / (1 - b ** t)",
    "for p, m in zip(ps, ms):\n    s = state[p]\n    s['t'] += 1\n"
    "    p -= lr * m / (1 - b ** s['t'])",
    "for k in ps:\n    t[k] += 1\n    ps[k] -= lr * m[k] / (1 - b ** t[k])",
    "for i, (x, y) in enumerate(loader):\n    t += 1\n    for p in ps:\n"
    "        p -= lr * m / (1 - b ** t)\n    losses[i] = loss",
    "t += 1\nfor p, m in zip(ps, ms):\n    p -= lr * m / (1 - b ** t)",
    "s = ReduceLROnPlateau(opt)\ns.step(val_loss)",
    "s = ReduceLROnPlateau(opt, mode='max')\ns.step(val_acc)",
    "s = ReduceLROnPlateau(opt)\ns.step(-val_acc)",
    "s = StepLR(opt, 3)\ns.step(val_acc)",
    "class GradReverse(Function):\n    def forward(ctx, x, a):\n        return x\n"
    "    def backward(ctx, g):\n        return -g * ctx.a, None",
    "class Reverse(Function):\n    def forward(ctx, x, a):\n        return x\n"
    "    def backward(ctx, g):\n        return g * ctx.a, None\ny = Reverse.apply(x, -lam)",
    "class ScaleGradient(Function):\n    def forward(ctx, x, a):\n        return x\n"
    "    def backward(ctx, g):\n        return g * ctx.a, None",
]


def codes(text: str) -> list[str]:
    tree = ast.parse(text)
    return [slip.code for row in ROWS for slip in row(tree)]


@pytest.mark.parametrize("text", WRONG)
def test_slips_are_found(text: str) -> None:
    assert codes(text) == [WRONG[text]]


@pytest.mark.parametrize("text", RIGHT)
def test_right_text_has_none(text: str) -> None:
    assert codes(text) == []
