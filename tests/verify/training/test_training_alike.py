"""Parameters that begin the same, and averages that keep nothing of themselves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.verify.training.test_training_right import observed

Loop = Callable[[], None]


def found(loop: Loop) -> list[Any]:
    findings, _ = observed(loop)
    return [f for f in findings if f.level != "note"]


def batches(count: int = 8) -> Iterator[tuple[Any, Any]]:
    torch.manual_seed(1)
    for _ in range(count):
        x = torch.randn(16, 5)
        yield x, x[:, :3].sin()


def train(net: nn.Module, after: Callable[[], None] = lambda: None) -> None:
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    for x, y in batches():
        optimizer.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        optimizer.step()
        after()


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


# --- Units ----------------------------------------------------------------------------------------


def even(*, where: tuple[int, ...], value: float = 0.1) -> Loop:
    def loop() -> None:
        net = network()
        for i in where:
            nn.init.constant_(net[i].weight, value)
            nn.init.zeros_(net[i].bias)
        train(net)

    return loop


def test_units_that_begin_the_same_and_stay_so():
    [finding] = [f for f in found(even(where=(0, 2))) if f.name.code == "symmetric"]
    assert finding.subject == "0.weight" and "all 8 units" in finding.name.because


@pytest.mark.parametrize(
    "loop",
    [
        even(where=()),
        even(where=(0,)),  # what comes behind them tells them apart
        even(where=(2,), value=0.0),  # a last layer that begins at nothing
    ],
    ids=["drawn", "the first only", "a last layer of zeros"],
)
def test_units_that_part(loop: Loop):
    assert not [f for f in found(loop) if f.name.code == "symmetric"]


# --- Two layers, one weight -----------------------------------------------------------------------


class Words(nn.Module):
    """An embedding, and scores for each word."""

    def __init__(self, tie: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.scores = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
        if tie == "copied":
            self.scores.weight.data.copy_(self.table.weight.data)
        if tie == "held":
            self.scores.weight = self.table.weight

    def forward(self, ids: Any) -> Any:
        return self.scores(self.table(ids))


def language(tie: str) -> Loop:
    def loop() -> None:
        net = Words(tie)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(6):
            ids = torch.randint(0, 9, (32,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(ids), (ids + 1) % 9).backward()
            optimizer.step()

    return loop


def layers_of_one_kind() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(5, 5)
    train(nn.Sequential(layer, nn.Tanh(), copy.deepcopy(layer), nn.Linear(5, 3)))


def test_a_weight_that_was_copied_where_it_was_to_be_shared():
    [finding] = [f for f in found(language("copied")) if f.name.code == "untied"]
    assert finding.subject == "table.weight, scores.weight"
    assert finding.place is not None and "copy_" in finding.place.text


@pytest.mark.parametrize(
    "loop", [language("held"), language("no"), layers_of_one_kind], ids=["held", "no", "copies"]
)
def test_weights_that_are_tied_or_other_ones(loop: Loop):
    assert not [f for f in found(loop) if f.name.code == "untied"]


# --- Averages -------------------------------------------------------------------------------------


def averaged(share: float, *, copied_at: int = 0) -> Loop:
    """A model that follows: `share` of the trained one in each step; or a copy now and then."""

    def loop() -> None:
        net = network()
        follower = copy.deepcopy(net).requires_grad_(False)
        steps = 0

        def follow() -> None:
            nonlocal steps
            steps += 1
            with torch.no_grad():
                follower(torch.ones(1, 5))
                d = share if not copied_at else float(steps % copied_at == 0)
                for p, q in zip(follower.parameters(), net.parameters(), strict=True):
                    p.lerp_(q, d)

        train(net, follow)

    return loop


def test_an_average_whose_shares_are_exchanged():
    [finding] = [f for f in found(averaged(0.95)) if f.name.code == "swapped"]
    assert "took 0.95" in finding.name.because and "0.05 of itself" in finding.name.because


@pytest.mark.parametrize(
    "loop",
    [averaged(0.05), averaged(0.5), averaged(1.0), averaged(0.0), averaged(0.0, copied_at=2)],
    ids=["slow", "half", "a copy", "never", "a copy now and then"],
)
def test_averages_that_keep_something_and_copies(loop: Loop):
    assert not [f for f in found(loop) if f.name.code == "swapped"]


# --- Statistics of averages


def normed(kind: type[nn.Module] = nn.BatchNorm1d) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 5), kind(5), nn.Tanh(), nn.Linear(5, 3))


def followed(
    update: Callable[[Any, Any], None], before: Callable[[Any, Any], None] = lambda a, m: None,
    make: Callable[[], nn.Module] = normed, evaluated: bool = True, begun: bool = False,
) -> Loop:  # fmt: skip
    """An average that is evaluated after the third step, and then goes on; before training, too."""

    def loop() -> None:
        net = make()
        average = copy.deepcopy(net).requires_grad_(False).train(not evaluated)
        with torch.no_grad():
            if begun:
                average(torch.ones(8, 5))
        steps = 0

        def follow() -> None:
            nonlocal steps
            steps += 1
            with torch.no_grad():
                update(average, net)
                if steps == 3:
                    before(average, net)
                    average(torch.randn(8, 5))

        train(net, follow)

    return loop


def parameters(average: nn.Module, net: nn.Module) -> None:
    for p, q in zip(average.parameters(), net.parameters(), strict=True):
        p.lerp_(q, 0.1)


def by_data(average: nn.Module, net: nn.Module) -> None:
    for p, q in zip(average.parameters(), net.parameters(), strict=True):
        p.data.mul_(0.5).add_(q.data, alpha=0.5)


def states(average: nn.Module, net: nn.Module) -> None:
    theirs = net.state_dict()
    for name, p in average.state_dict().items():
        p.copy_(0.9 * p + 0.1 * theirs[name])


def buffers(average: nn.Module, net: nn.Module) -> None:
    for b, c in zip(average.buffers(), net.buffers(), strict=True):
        b.copy_(c)


def both(average: nn.Module, net: nn.Module) -> None:
    parameters(average, net)
    buffers(average, net)


@pytest.mark.parametrize("update", [parameters, by_data])
def test_an_average_with_the_first_statistics(update: Callable[[Any, Any], None]):
    [finding] = found(followed(update))
    assert finding.name.code == "left_behind"
    assert finding.place is not None and finding.place.function == update.__name__


RIGHT = {
    "buffers, too": followed(both),
    "whole states": followed(states),
    "buffers before it is evaluated": followed(parameters, buffers),
    "before training, then buffers as well": followed(both, begun=True),
    "statistics of its own": followed(parameters, evaluated=False),
    "no statistics": followed(parameters, make=lambda: normed(nn.LayerNorm)),
    "none that are kept": followed(
        parameters, make=lambda: normed(lambda n: nn.BatchNorm1d(n, track_running_stats=False))
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_averages_with_statistics_of_their_own(name: str):
    assert not found(RIGHT[name])
