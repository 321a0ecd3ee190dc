"""What a program does by hand between the events of its loop, schedules that are functions, and
parameters that are thawed or frozen late: wrong scripts, and right ones that come near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.script.by_hand.test_script_gradients_at_hand import reported
from tests.verify.script.losses.loss_scripts import HEAD, MARKS

pytestmark = MARKS

FIT = "F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4))"
LOOP = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
opt = torch.optim.Adam(net.parameters(), 1e-2)
{before}
for step in range(6):
    x, y = torch.randn(16, 6), torch.randn(16, 4)
    opt.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    {between}
    opt.step()
    {behind}
"""
MASKS = "masks = [(torch.rand_like(p) > 0.5).float() for p in net.parameters()]"
MASK = "[p.data.mul_(m) for p, m in zip(net.parameters(), masks)]"
BOUND = "[p.data.clamp_(-0.1, 0.1) for p in net.parameters()]"
DIAGONAL = "net[2].weight.data[:, :4].fill_diagonal_(0)"
AWAY = """
    old = [p.detach().clone() for p in net.parameters()]
    move = [{} for p in net.parameters()]
    with torch.no_grad():
        [p.add_(e) for p, e in zip(net.parameters(), move)]
    opt.zero_grad()
    F.mse_loss(net(x), y).backward()
    with torch.no_grad():
        {}
"""
RHO = "0.05 * p.grad / p.grad.norm()"
COPIES = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
opt = torch.optim.SGD(net.parameters(), 0.05)
copies = [copy.deepcopy(net) for _ in range(3)]
for step in range(8):
    every = []
    for one in copies:
        {pull}
        one.zero_grad()
        F.{loss}(one(torch.randn(16, 6)), torch.randn(16, 4){reduction}).backward()
        every.append([p.grad for p in one.parameters()])
    for p, gs in zip(net.parameters(), zip(*every)):
        p.grad = {joined}
    opt.step()
    {behind}
"""
PULL = "one.load_state_dict(net.state_dict())"
SUM, MEAN = "sum(gs)", "torch.stack(gs).mean(0)"


def between(text: str = "pass", behind: str = "pass", before: str = "pass") -> str:
    return LOOP.format(between=text, behind=behind, before=before)


def copies(
    joined: str, pull: str = PULL, behind: str = "pass", loss: str = "mse_loss", by: str = ""
) -> str:
    return COPIES.format(joined=joined, pull=pull, behind=behind, loss=loss, reduction=by)


SCHEDULED = """
net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), 0.05)
epochs, batches = 6, 5
total = epochs * batches
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: {})
for epoch in range(epochs):
    for i in range(batches):
        opt.zero_grad()
        F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4)).backward()
        opt.step()
        {}
    {}
"""
LINE = "max(0.0, 1 - n / {})"
COSINE = "0.5 * (1 + math.cos(math.pi * min(1.0, n / {})))"
STEP = "sched.step()"
FROZEN = """
class Low(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, self.up = base, nn.Linear(8, 4, bias=False)
        self.down = nn.Linear(6, 8, bias=False)
        nn.init.{}(self.up.weight)
    def forward(self, x):
        return self.base(x) + self.up(self.down(x))
base = nn.Linear(6, 4)
{}
net = nn.Sequential(Low(base), nn.Tanh(), nn.Linear(4, 4))
{}
opt = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], 1e-2)
for step in range(4):
    opt.zero_grad()
    F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4)).backward()
    opt.step()
"""
FREEZE = "net[0].requires_grad_(False)"
THAWED = """
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
net[0].requires_grad_(False)
opt = torch.optim.Adam({}, 1e-2)
for step in range(20):
    if step == 8:
        {}
    opt.zero_grad()
    F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, 4)).backward()
    opt.step()
"""
HEADS = "[p for p in net.parameters() if p.requires_grad]"
THAW = "net[0].requires_grad_(True)"
SCALED = """
net = nn.Linear(6, 4)
half = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), 0.05)
for step in range(5):
    (512 * F.mse_loss(half(torch.randn(16, 6)), torch.randn(16, 4))).backward()
    for p, h in zip(net.parameters(), half.parameters()):
        p.grad, h.grad = h.grad.clone(), None
    {}
    opt.step()
    half.load_state_dict(net.state_dict())
"""
CLIP, DIVIDE = (
    "nn.utils.clip_grad_norm_(net.parameters(), 0.1)",
    "[p.grad.div_(512) for p in net.parameters()]",
)
TOKENS = """
net = nn.Linear(6, 4)
opt = torch.optim.SGD(net.parameters(), 0.05)
for step in range(5):
    opt.zero_grad()
    ys = [torch.where(torch.arange(24) < n, torch.randint(0, 4, (24,)), -100) for n in (3, 9, 24)]
    total = sum([int((y >= 0).sum()) for y in ys])
    for y in ys:
        loss = F.cross_entropy(net(torch.randn(24, 6)), y, reduction="sum")
        ({}).backward()
    opt.step()
"""
AGAIN = """
class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, f, x, *params):
        ctx.f, ctx.state = f, torch.get_rng_state()
        ctx.save_for_backward(x, *params)
        with torch.no_grad():
            return f(x)
    @staticmethod
    def backward(ctx, g):
        x, *params = ctx.saved_tensors
        now = torch.get_rng_state()
        {}
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = ctx.f(x)
        torch.set_rng_state(now)
        return (None, *torch.autograd.grad(y, [x, *params], g))
block = nn.Sequential(nn.Linear(6, 6), {}, nn.Linear(6, 6))
net = nn.ModuleList([nn.Linear(6, 6), block, nn.Linear(6, 4)])
opt = torch.optim.SGD(net.parameters(), 0.05)
for step in range(4):
    h = net[0](torch.randn(16, 6))
    h = Again.apply({}, h, *block.parameters())
    opt.zero_grad()
    F.mse_loss(net[2](h), torch.randn(16, 4)).backward()
    opt.step()
"""
RESTORED = "torch.set_rng_state(ctx.state)"
PHASES = """
def fit(net, out):
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    for step in range(4):
        opt.zero_grad()
        F.mse_loss(net(torch.randn(16, 6)), torch.randn(16, out)).backward()
        opt.step()
class Low(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter({}(2, 6)), nn.Parameter(torch.zeros(8, 2))
        self.c = nn.Linear(6, 8)
    def forward(self, x):
        return self.c(x) + x @ self.a.t() @ self.b.t()
fit(nn.Linear(6, 4), 4)
fit(Low(), 8)
"""

CASES = {
    "a mask that the step undoes": ("undone", between(MASK, before=MASKS)),
    "a mask behind the step": ("", between(behind=MASK, before=MASKS)),
    "a mask on both sides": ("", between(MASK, MASK, MASKS)),
    "a bound that the step undoes": ("undone", between(BOUND)),
    "a bound behind the step": ("", between(behind=BOUND)),
    "a diagonal that the step undoes": ("undone", between(DIAGONAL)),
    "a decay in front of the step": ("", between("[p.data.mul_(0.99) for p in net.parameters()]")),
    "weights that are put back": ("", between(AWAY.format(
        RHO, "[p.sub_(e) for p, e in zip(net.parameters(), move)]"))),
    "weights that are copied back": ("", between(AWAY.format(
        RHO, "[p.copy_(o) for p, o in zip(net.parameters(), old)]"))),
    "a second step of the same kind": ("", between(AWAY.format(
        f"-{RHO}", f"[p.sub_({RHO}) for p in net.parameters()]"))),
    "a sum of copies' gradients": ("accumulation", copies(SUM)),
    "a sum of losses that are means": ("accumulation", copies(SUM, loss="l1_loss")),
    "a mean of copies' gradients": ("", copies(MEAN)),
    "a sum of gradients of sums": ("", copies(SUM, by=", reduction='sum'")),
    "copies that go on by themselves": (
        "", copies(MEAN, "[p.data.mul_(0.99) for p in one.parameters()]")),
    "a line of all batches, by epochs": (
        "schedule_unit", SCHEDULED.format(LINE.format("total"), "pass", STEP)),
    "a cosine of all batches, by epochs": (
        "schedule_unit", SCHEDULED.format(COSINE.format("total"), "pass", STEP)),
    "a line of all epochs, by batches": (
        "schedule_unit", SCHEDULED.format(LINE.format("epochs"), STEP, "pass")),
    "a line of all batches": ("", SCHEDULED.format(LINE.format("total"), STEP, "pass")),
    "a cosine of all epochs": ("", SCHEDULED.format(COSINE.format("epochs"), "pass", STEP)),
    "a decay by epochs": ("", SCHEDULED.format("0.9 ** n", "pass", STEP)),
    "an adapter that is frozen at 0": ("no_gradient", FROZEN.format("zeros_", "pass", FREEZE)),
    "an adapter's base that is frozen": (
        "", FROZEN.format("zeros_", "base.requires_grad_(False)", "pass")),
    "a frozen part that is not 0": ("", FROZEN.format("normal_", "pass", FREEZE)),
    "an attribute of a module": ("no_gradient", THAWED.format("net.parameters()", "pass").replace(
        "net[0].requires_grad_(False)", "net[0].requires_grad = False")),
    "a part that stays frozen": ("", THAWED.format(HEADS, "pass")),
    "a part that is thawed for nobody": ("not_optimized", THAWED.format(HEADS, THAW)),
    "a part that is thawed, in the optimizer": ("", THAWED.format("net.parameters()", THAW)),
    "a part that is thawed, and given": ("", THAWED.format(
        HEADS, THAW + "; opt.add_param_group({'params': net[0].parameters()})")),
    "clipped before it is divided": ("clip_scaled", SCALED.format(f"{CLIP}; {DIVIDE}")),
    "clipped behind that": ("", SCALED.format(f"{DIVIDE}; {CLIP}")),
    "means over tokens": ("accumulation", TOKENS.format("loss / (y >= 0).sum() / len(ys)")),
    "means over tokens, by number": (
        "accumulation", TOKENS.format("loss / int((y >= 0).sum()) / 3")),
    "a mean over all tokens": ("", TOKENS.format("loss / total")),
    "run again with other noise": ("recomputed", AGAIN.format("pass", "nn.Dropout(0.5)", "block")),
    "a function run again with other noise": ("recomputed", AGAIN.format(
        "pass", "nn.Dropout(0.5)", "lambda h: block(h)")),
    "run again with the same noise": ("", AGAIN.format(RESTORED, "nn.Dropout(0.5)", "block")),
    "run again without noise": ("", AGAIN.format("pass", "nn.Tanh()", "lambda h: block(h)")),
    "a second model on the same line": ("no_gradient", PHASES.format("torch.zeros")),
    "a second model that is right": ("", PHASES.format("torch.randn")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_moves_by_hand(tmp_path: Path, name: str) -> None:
    code, text = CASES[name]
    report = reported(tmp_path, f"import math\n{HEAD}{text}", window=40)
    found = [f.name.code for f in report.findings if f.level != "note"]
    assert found[:1] == ([code] if code else []), str(report)
    assert not [s for s in report.ledger.skipped if "failed" in s.why], str(report)
