"""Values outside of a Function that change between its forward and its backward."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch

from chainrule.verify import script
from chainrule.verify.pytorch.observing.outside_reads import MISSING, outers
from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file

pytestmark = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=5),
]

LOOP = """
w = torch.nn.Parameter(torch.linspace(-1.0, 1.5, 6).reshape(2, 3))
x = torch.randn(5, 2)
o = torch.optim.SGD([w], lr=0.05)
for i in range(4):
    o.zero_grad()
    loss = (call(x @ w) - 1).square().mean()
    {before}
    loss.backward()
    {after}
    o.step()
"""

ON_CTX = """
import torch
torch.manual_seed(0)
settings = {"slope": 0.75}

class Bent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.slope = settings["slope"]
        return torch.where(x > 0, x, x * settings["slope"])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g, g * ctx.slope)

call = Bent.apply
def change():
    settings["slope"] *= 0.8
"""
OUTSIDE = ON_CTX.replace("g * ctx.slope", 'g * settings["slope"]')

IN_PLACE = """
import torch
torch.manual_seed(0)

class Gains:
    def __init__(self):
        self.each = torch.tensor([0.5, 2.0, 1.5])

gains = Gains()

class Gained(torch.autograd.Function):
    @staticmethod
    def forward(x):
        "Each column has its gain."
        return x.sin() * gains.each

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * gains.each * x.cos()

call = Gained.apply
def change():
    gains.each.mul_(1.5)
"""
IN_ONE = (
    IN_PLACE.replace("    @staticmethod\n    def setup_context(ctx, inputs, output):\n", "")
    .replace("        ctx.save_for_backward(*inputs)\n", "")
    .replace("return x.sin()", "ctx.save_for_backward(x)\n        return x.sin()")
    .replace("forward(x)", "forward(ctx, x)")
)

CLOSED = """
import torch
torch.manual_seed(0)

def made():
    power, calls = 2.0, 0

    class Power(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            nonlocal calls
            calls += 1
            ctx.save_for_backward(x)
            return x.abs() ** power + 0 * calls

        @staticmethod
        def backward(ctx, g):
            nonlocal calls
            calls += 1
            (x,) = ctx.saved_tensors
            return g * power * x.abs() ** (power - 1) * x.sign() + 0 * calls

    def change():
        nonlocal power
        power += 0.25

    return Power.apply, change

call, change = made()
"""

COUNTED = """
import torch
torch.manual_seed(0)

class Clock:
    ticks = 0
    rate = 3.0

class Ticked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        Clock.ticks += 1
        if Clock.ticks > 1000:
            print("many")
        return x * Clock.rate

    @staticmethod
    def backward(ctx, g):
        if Clock.ticks > 1000:
            print("many")
        return g * Clock.rate

call = Ticked.apply
def change():
    Clock.ticks += 1
"""


def observed(tmp_path, text: str, before: str = "change()", after: str = "pass"):
    """What is said of a script."""
    path = tmp_path / "train.py"
    path.write_text(text + LOOP.format(before=before, after=after), encoding="utf-8")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        outcome = script.run(
            script.target(str(path)), own=script.OWN, torch=script.TORCH, stop=True
        )
    assert not [s for s in outcome.report.ledger.skipped if "recorded" in s.why]
    return [f for f in outcome.report.findings if f.level != "note"]


@pytest.mark.parametrize(
    ("text", "read", "after"),
    [
        (OUTSIDE, 'settings["slope"]', "g * ctx.slope"),
        (IN_PLACE, "gains.each", "ctx.each = gains.each.clone()"),
        (IN_ONE, "gains.each", "ctx.each = gains.each.clone()"),
        (CLOSED, "x.abs() ** (power - 1)", "ctx.power = power"),
    ],
)
def test_what_has_changed_since_the_forward_is_found_and_kept_instead(tmp_path, text, read, after):
    (found,) = observed(tmp_path, text)
    assert found.name.code == "stale"
    assert found.place is not None and found.place.function.endswith("backward")
    assert read in found.place.text
    assert found.error is not None and found.error > 1e-2
    correction = found.correction
    assert correction is not None and correction.rechecked
    assert after in correction.after


def test_the_values_then_and_now_are_said(tmp_path):
    (found,) = observed(tmp_path, OUTSIDE)
    assert "0.75 then, 0.6 now" in found.name.because


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (ON_CTX, "change()", "pass"),
        (OUTSIDE, "pass", "change()"),
        (IN_PLACE, "pass", "change()"),
        (CLOSED, "pass", "change()"),
        (COUNTED, "change()", "change()"),
    ],
)
def test_what_is_kept_or_changes_later_or_does_not_matter_is_right(tmp_path, text, before, after):
    assert observed(tmp_path, text, before, after) == []


SCALE = 2.0


class Held:
    """Has a value that is computed when it is asked for."""

    asked = 0

    @property
    def computed(self) -> float:
        self.asked += 1
        return 1.0


HELD = Held()


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * SCALE * HELD.computed

    @staticmethod
    def backward(ctx, g):
        return g * SCALE * HELD.computed


def test_what_both_read_outside_is_seen_without_running_the_users_code():
    found = {o.text: o.read(Scaled.backward) for o in outers(Scaled)}
    assert found == {"SCALE": 2.0, "HELD": HELD, "HELD.computed": MISSING}
    assert HELD.asked == 0
