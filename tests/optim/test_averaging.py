"""Averages of weights: PyTorch's, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim

torch = pytest.importorskip("torch")
swa = torch.optim.swa_utils

AVERAGES: dict[str, tuple[Any, Any]] = {
    "swa": (None, None),
    "ema": (optim.get_ema_avg_fn(0.9), swa.get_ema_avg_fn(0.9)),
    "ema, default": (optim.get_ema_avg_fn(), swa.get_ema_avg_fn()),
    "by hand": (lambda a, p, n: a + (p - a) / (n + 2), lambda a, p, n: a + (p - a) / (n + 2)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_pytorchs(name: str, compiled: bool):
    mine, other = AVERAGES[name]
    model, theirs = nn.Linear(3, 2, dtype=np.float64), torch.nn.Linear(3, 2).double()
    theirs.load_state_dict({k: torch.tensor(t.numpy()) for k, t in model.state_dict().items()})
    a, b = optim.AveragedModel(model, mine), swa.AveragedModel(theirs, avg_fn=other)
    update = cr.jit(lambda: a.update_parameters(model)) if compiled else None
    rng = np.random.default_rng(0)
    for _ in range(6):
        for p, q in zip(model.parameters(), theirs.parameters(), strict=True):
            new = rng.normal(size=p.shape)
            p.data, q.data = cr.tensor(new), torch.tensor(new)
        a.update_parameters(model) if update is None else update()
        b.update_parameters(theirs)
    wanted = b.state_dict()
    assert list(a.state_dict()) == list(wanted)
    for key, t in a.state_dict().items():
        np.testing.assert_allclose(t.numpy(), wanted[key].numpy(), rtol=1e-12)
    x = rng.normal(size=(4, 3))
    np.testing.assert_allclose(
        a(cr.tensor(x)).detach().numpy(), b(torch.tensor(x)).detach().numpy()
    )


def test_mistakes():
    averaged = optim.AveragedModel(nn.Linear(3, 2))
    with pytest.raises(cr.ConfigError, match="average of another model"):
        averaged.update_parameters(nn.Linear(3, 2, bias=False))
    with pytest.raises(cr.ConfigError, match="decay is a number from 0 to 1, not 2"):
        optim.get_ema_avg_fn(2)
