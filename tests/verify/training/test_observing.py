"""What looks on at a PyTorch program: one door for calls, one for modules, little that is told."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from chainrule.verify.ledger import Ledger
from chainrule.verify.pytorch import door, modules
from chainrule.verify.pytorch.nested_tensors import checksum, total
from chainrule.verify.training import torch_bus, torch_parts
from chainrule.verify.training.record import op_events
from chainrule.verify.training.rules.flow import Flow
from chainrule.verify.training.watching import watching
from tests.verify.training.programs.training_models import GPT, batch, mlp


class Names(door.Onlooker):
    """Notes the names of calls."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def saw(self, call: door.Call) -> None:
        self.names.append(call.kind.name)


class Befores(door.Recorder):
    """Notes the sums of first arguments before calls, and of results after them."""

    def __init__(self) -> None:
        self.sums: list[tuple[float, float | None]] = []

    def begins(self, call: door.Call) -> None:
        call.noted = float(call.args[0].detach().sum())

    def saw(self, call: door.Call) -> None:
        self.sums.append((call.noted, call.total(0)))


def stack() -> int:
    return torch._C._len_torch_function_stack()


def test_all_onlookers_share_one_mode():
    names, befores, x = Names(), Befores(), torch.ones(3, requires_grad=True)
    door.look(names)
    door.look(befores)
    try:
        assert stack() == 1
        (x.exp() * 2).detach().zero_()
        assert x.shape == (3,)  # computes nothing
    finally:
        assert door.look_away(names)
        assert stack() == 1
        assert door.look_away(befores)
    assert not door.look_away(befores)
    assert stack() == 0
    assert names.names == ["exp", "mul", "detach", "zero_"]
    e = float(x.detach().exp().sum())
    seen = [(3.0, e), (e, 2 * e), (2 * e, 2 * e), (2 * e, 0.0)]
    assert [
        row for row, want in zip(befores.sums, seen, strict=True) if row != pytest.approx(want)
    ] == []


def test_a_backward_pass_and_a_step_leave_one_mode():
    m, (x, y) = mlp(), batch()
    o = torch.optim.SGD(m.parameters(), 0.1)
    with watching(o):
        for _ in range(2):
            F.mse_loss(m(x), y).backward()
            assert stack() == 1
            o.step()
            assert stack() == 1
    assert stack() == 0


def test_while_it_is_paused_nobody_is_told():
    names, x = Names(), torch.ones(3)
    door.look(names)
    try:
        door.pause()
        assert stack() == 0
        x.exp()
        door.resume()
        x.log()
    finally:
        door.look_away(names)
    assert names.names == ["log"]
    assert stack() == 0


def test_each_thread_has_a_door_of_its_own():
    import threading

    names, depth = Names(), list[int]()
    door.look(names)
    try:
        thread = threading.Thread(target=lambda: depth.append(stack()) or torch.ones(2).exp())
        thread.start()
        thread.join()
    finally:
        door.look_away(names)
    assert depth == [0]
    assert "exp" not in names.names


def test_what_a_name_tells():
    assert door.kind_of(torch.Tensor.add_).writes
    assert door.kind_of(torch.Tensor.__setitem__).writes
    assert not door.kind_of(torch.Tensor.__add__).writes
    assert door.kind_of(torch.Tensor.T.__get__).name == "T"  # pyright: ignore
    assert door.kind_of(torch.Tensor.grad.__get__).name == ""  # pyright: ignore
    assert not door.kind_of(F.dropout).still


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_totals(dtype: torch.dtype):
    x = torch.tensor([1.5, -0.25, 4.0], dtype=dtype, requires_grad=True)
    assert total(x) == 5.25
    bad = torch.tensor([1.0, float("nan")], dtype=dtype)
    assert total(bad) != total(bad)
    assert checksum(bad) == 0.0
    assert total(torch.ones(3, dtype=torch.int64)) is None


class Calls(modules.Listener):
    """Notes calls of modules and how they ended."""

    def __init__(self, below: object = None) -> None:
        self.below = below
        self.rows: list[tuple[str, bool]] = []

    def enters(self, module: object, inputs: tuple[object, ...]) -> object:
        return None if torch.is_grad_enabled() else self.below

    def leaves(self, module: object, token: object, output: object) -> None:
        self.rows.append((type(module).__name__, output is not None))


class Fails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the program's own")


class Trains(nn.Module):
    """Records a graph though it is called without one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return self.inner(x)


def heard(run, below: object = None) -> list[tuple[str, bool]]:
    before, calls = nn.Module.__call__, Calls(below)
    modules.listen(calls)
    try:
        run()
    finally:
        modules.unlisten(calls)
    assert nn.Module.__call__ is before
    return calls.rows


def test_modules_are_heard_of_whatever_becomes_of_them():
    x, both = torch.ones(2), nn.Sequential(nn.ReLU(), nn.Tanh())
    assert heard(lambda: both(x)) == [("ReLU", True), ("Tanh", True), ("Sequential", True)]
    with pytest.raises(ValueError, match="own"):
        heard(lambda: nn.Sequential(Fails())(x))


def test_nothing_below_is_told_but_what_has_a_graph():
    x = torch.ones(2)

    def run() -> None:
        with torch.no_grad():
            nn.Sequential(nn.ReLU(), nn.Tanh())(x)
            nn.Sequential(nn.Tanh(), Trains())(x)

    told = [("Sequential", True), ("ReLU", True), ("Sequential", True)]
    assert heard(run, modules.NOTHING) == told
    assert len(heard(run)) == 7


def test_of_ordinary_ops_nothing_is_told():
    bus = torch_bus()
    parts = torch_parts(bus)
    heard: list[str] = []
    for part in parts:
        part.start()
    tell = bus.tell

    def told(event: object) -> None:
        if isinstance(event, op_events.OpRan):
            heard.append(event.name)
        tell(event)

    bus.tell = told
    try:
        model, tokens = GPT(), torch.randint(0, 31, (4, 8))
        heard.clear()
        before = bus.ops
        F.cross_entropy(model(tokens).flatten(0, -2), tokens.flatten()).backward()
    finally:
        for part in parts:
            part.stop()
    assert bus.ops - before > 3 * len(heard)


def first_bad(x: torch.Tensor, change) -> str:
    torch.manual_seed(0)
    m = nn.Linear(3, 2)
    o = torch.optim.SGD(m.parameters(), 0.1)
    with watching() as report:
        (change(x) * m(torch.ones(2, 3))).sum().backward()
        o.step()
    return next(f.subject for f in report.findings if f.name and f.name.code == "first_bad")


def test_bad_values_begin_where_they_did():
    nan = torch.tensor([[1.0, float("nan")], [1.0, 2.0]])
    w = nan.clone().requires_grad_()
    assert first_bad(nan, F.relu) == "relu"
    assert first_bad(w, F.relu) == "relu"  # no op has made it
    assert (
        first_bad(torch.ones(2, 2, requires_grad=True), lambda x: F.gelu((x - 2).sqrt())) == "sqrt"
    )
    assert first_bad(torch.full((2, 2), 1e38), lambda x: torch.relu(x * 10)) == "mul"


class Old(torch.optim.Optimizer):
    """An optimizer in the style of old: it scales gradients behind autograd's back."""

    def __init__(self, params) -> None:
        super().__init__(params, {})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.data.mul_(0.5)
                p.data.add_(p.grad.data, alpha=-0.1)


@pytest.mark.parametrize("how", ["never", "by hand", "zero_grad"])
@pytest.mark.parametrize("make", [Old, lambda params: torch.optim.Adam(params)])
def test_gradients_that_an_optimizer_has_scaled_are_still_the_old_ones(make, how: str):
    torch.manual_seed(0)
    m, (x, y) = mlp(), batch()
    o = make(m.parameters())
    with watching(o) as report:
        for _ in range(3):
            F.mse_loss(m(x), y).backward()
            o.step()
            if how == "zero_grad":
                o.zero_grad(set_to_none=False)
            if how == "by hand":
                for p in m.parameters():
                    p.grad.data.zero_()
    codes = [f.name.code for f in report.findings if f.level != "note"]
    assert codes == (["not_reset"] if how == "never" else [])


def deep(squash: type[nn.Module]) -> nn.Sequential:
    layers = [part for _ in range(8) for part in (nn.Linear(16, 16), squash())]
    m = nn.Sequential(*layers, nn.Linear(16, 1))
    if squash is nn.ReLU:
        for layer in m[::2]:
            nn.init.kaiming_normal_(layer.weight)
    return m


@pytest.mark.sweep
@pytest.mark.parametrize(("squash", "measured"), [(nn.ReLU, 1), (nn.Sigmoid, 3)])
def test_a_model_that_is_fine_in_one_step_is_measured_no_more(squash: type, measured: int):
    torch.manual_seed(0)
    parts = torch_parts(torch_bus())
    for part in parts:
        part.start()
    m = deep(squash)
    o = torch.optim.SGD(m.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        F.mse_loss(m(torch.randn(32, 16)), torch.randn(32, 1)).backward()
        o.step()
    for part in parts:
        part.stop()
    flow = next(part for part in parts if isinstance(part, Flow))
    assert {len(layer.norms) for layer in flow._layers.values()} == {measured}
    codes = [f.name.code for f in flow.findings(Ledger()) if f.name]
    assert codes == (["vanishing"] if measured == 3 else [])
