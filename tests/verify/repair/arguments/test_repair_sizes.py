"""A large input is searched at a small one."""

from __future__ import annotations

from typing import Any

import pytest

from chainrule import verify
from tests.sampling import sampled_file
from tests.verify.repair.lines.test_repair_values_known import draw, told

pytestmark = sampled_file(one_in=3)

torch = pytest.importorskip("torch")


class Normed(torch.autograd.Function):
    """Batch norm of images, as large as they come."""

    @staticmethod
    def forward(ctx: Any, x: Any, gain: Any, shift: Any) -> Any:
        std = torch.sqrt(x.var(dim=(0, 2, 3), unbiased=False, keepdim=True) + 1e-5)
        xhat = (x - x.mean(dim=(0, 2, 3), keepdim=True)) / std
        ctx.save_for_backward(xhat, std, gain)
        return xhat * gain.view(1, -1, 1, 1) + shift.view(1, -1, 1, 1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        xhat, std, gain = ctx.saved_tensors
        n, c, h, w = g.shape
        shift_bar, gain_bar = g.sum(dim=(0, 2, 3)), (g * xhat).sum(dim=(0, 2, 3))
        scale = gain.view(1, c, 1, 1) / std
        x_bar = scale * (g - shift_bar.view(1, c, 1, 1) / (n * h * w))
        return x_bar, gain_bar, shift_bar


def test_a_large_image_is_searched_at_a_small_one() -> None:
    x = torch.tensor(draw(10, 4, 6, 6), requires_grad=True)
    given = [torch.tensor(1 + 0.1 * draw(4, seed=s), requires_grad=True) for s in (1, 2)]
    code, line, after = told(verify.function(Normed, x, *given))
    assert code in ("missing_term", "partly_detached")
    assert line.startswith("x_bar = scale *") and "xhat * (g * xhat).mean(" in after
