"""Whole training steps, compiled and not, side by side: models, optimizers, what goes with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.models.gpt import GPT, GPTConfig, generator_draw
from tests.compile.trace.backends import backend as backend
from tests.compile.trace.test_jit import assert_same
from tests.optim.optimizers import ROWS, takes
from tests.sampling import sampled, sampled_file

pytestmark = sampled_file(one_in=3)


def _row(name: str) -> Callable[[Any], optim.Optimizer]:
    cls, settings = ROWS[name]

    def make(params: list[cr.Tensor]) -> optim.Optimizer:
        for p in params:
            p.requires_grad_(takes(name, p.shape))
        return getattr(optim, cls)([p for p in params if p.requires_grad], **settings)

    return make


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    **{name: _row(name) for name in ROWS},
    "adamw, groups": lambda p: optim.AdamW(
        [{"params": p[:1], "lr": 0.1}, {"params": p[1:], "weight_decay": 0.3}], lr=0.01
    ),
}


class Net(nn.Module):
    """A small convolutional network with batch norm and dropout."""

    def __init__(self, g: cr.Generator) -> None:
        self.kernel = g.normal((4, 1, 3, 3), std=0.3).requires_grad_()
        self.scale = cr.ones(4, requires_grad=True)
        self.mean, self.var = cr.zeros(4), cr.ones(4)
        self.drop = nn.Dropout(0.3, generator=g)
        self.out = nn.Linear(4 * 9, 3, generator=g)

    def forward(self, x: Any) -> Any:
        x = nn.functional.conv2d(x, self.kernel)
        n = nn.functional.batch_norm(x, self.mean, self.var, self.scale, training=self.training)
        self.mean.data, self.var.data = n.running_mean, n.running_var
        x = nn.functional.max_pool2d(n.y.relu(), 2)
        return self.out(self.drop(x.reshape(x.shape[0], -1)))

    def loss(self, x: Any, y: Any) -> Any:
        return cr.cross_entropy(self(x), y)


class Mlp(nn.Module):
    def __init__(self, g: cr.Generator) -> None:
        self.a = nn.Linear(5, 16, generator=g)
        self.b = nn.Linear(16, 3, generator=g)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x).tanh())

    def loss(self, x: Any, y: Any) -> Any:
        return cr.cross_entropy(self(x), y)


def gpt(g: cr.Generator, **settings: Any) -> GPT:
    sizes: dict[str, Any] = {"n_layer": 2, "n_embd": 16, "n_head": 2, "block_size": 8}
    return GPT(GPTConfig(vocab_size=11, **sizes, **settings), draw=generator_draw(g))


def pictures(r: np.random.Generator) -> tuple[cr.Tensor, cr.Tensor]:
    x = r.normal(size=(6, 1, 8, 8)).astype(np.float32)
    return cr.tensor(x), cr.tensor(r.integers(0, 3, 6))


def vectors(r: np.random.Generator) -> tuple[cr.Tensor, cr.Tensor]:
    return cr.tensor(r.normal(size=(6, 5)).astype(np.float32)), cr.tensor(r.integers(0, 3, 6))


def tokens(r: np.random.Generator) -> tuple[cr.Tensor, cr.Tensor]:
    t = r.integers(0, 11, (2, 8))
    return cr.tensor(t[:, :-1]), cr.tensor(t[:, 1:])


class Run:
    """One model with its optimizer; `step` is one step of training."""

    def __init__(self, model: Any, opt: Any, step: Callable[[Any, Any, Any, Any], Any]) -> None:
        self.model = model
        self.opt = opt
        self.step: Any = lambda x, y: step(self.model, self.opt, x, y)

    def state(self) -> Any:
        """Everything that a step may change."""
        grads = [p.grad for p in self.model.parameters()]
        return self.model.state_dict(), grads, [_arrays(self.opt.state_dict()["state"])]


def _arrays(state: Any) -> Any:
    return [
        [s["step"], *[cr.tensor(v) for k, v in s.items() if k != "step"]] for s in state.values()
    ]


def plain_step(model: Any, opt: Any, x: Any, y: Any) -> Any:
    loss = model.loss(x, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def side_by_side(
    make: Callable[[cr.Generator], Any],
    optimizer: Callable[[Any], optim.Optimizer],
    data: Callable[[np.random.Generator], Any],
    *,
    step: Callable[[Any, Any, Any, Any], Any] = plain_step,
    between: Callable[[Run, int], None] = lambda run, k: None,
    steps: int = 5,
    traces: int = 1,
) -> None:
    """Two runs give the same losses, parameters, buffers, gradients and optimizer state."""
    models = [make(cr.Generator(7)), make(cr.Generator(7))]
    eager, mine = [Run(m, optimizer(m.parameters()), step) for m in models]
    mine.step = cr.jit(mine.step)
    r = np.random.default_rng(0)
    for k in range(steps):
        x, y = data(r)
        a, b = eager.step(x, y), mine.step(x, y)
        np.testing.assert_allclose(_number(b), _number(a), rtol=1e-4)
        for run in (eager, mine):
            between(run, k)
        assert_same(mine.state(), eager.state())
    assert mine.step.traces == traces


def _number(loss: Any) -> Any:
    return loss.detach().numpy() if isinstance(loss, cr.Tensor) else loss


@sampled(one_in=3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(name: str):
    side_by_side(Mlp, OPTIMIZERS[name], vectors)


def test_gpt():
    side_by_side(gpt, OPTIMIZERS["adamw"], tokens)


def test_gpt_with_dropout():
    cr.manual_seed(3)
    models = [gpt(cr.Generator(7), dropout=0.2) for _ in range(2)]
    x, y = tokens(np.random.default_rng(0))
    losses: list[Any] = []
    for model, wrap in zip(models, (lambda f: f, cr.jit), strict=True):
        cr.manual_seed(4)
        opt = optim.AdamW(model.parameters(), lr=0.01)
        step = wrap(lambda x, y, model=model, opt=opt: plain_step(model, opt, x, y))
        losses.append([step(x, y).item() for _ in range(4)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


def test_a_convolutional_net_with_batch_norm_and_dropout():
    side_by_side(Net, OPTIMIZERS["adam"], pictures)


def test_float64():
    def make(g: cr.Generator) -> Any:
        model = Mlp(g)
        for p in model.parameters():
            p.value = p.value.astype(np.float64)
            p.requires_grad_(False).requires_grad_()
        return model

    def data(r: np.random.Generator) -> Any:
        return cr.tensor(r.normal(size=(6, 5))), cr.tensor(r.integers(0, 3, 6))

    side_by_side(make, OPTIMIZERS["adam"], data)


def test_a_schedule_changes_the_rate_without_a_new_trace():
    schedules: dict[Any, Any] = {}

    def between(run: Run, k: int) -> None:
        if run not in schedules:
            shape = optim.WarmUp(3) * optim.Cosine(6)
            schedules[run] = optim.Scheduler(run.opt, shape)
        schedules[run].step()

    side_by_side(Mlp, OPTIMIZERS["adamw"], vectors, between=between, steps=7)


def _rates(k: int, group: dict[str, Any]) -> None:
    group["lr"] = 0.1 / (k + 1)


def _list_of_betas(k: int, group: dict[str, Any]) -> None:
    if k == 4:
        group["betas"] = [0.9, 0.99]
    elif k > 5:
        group["betas"][0] = 0.5 + k / 40


def _from_the_sixth(name: str, value: Any) -> Callable[[int, dict[str, Any]], None]:
    return lambda k, group: group.update({name: value} if k == 6 else {})


CHANGES = {
    "rates": _rates,
    "list of betas": _list_of_betas,
    **{n: _from_the_sixth(n, v) for n, v in [("weight_decay", 0.3), ("amsgrad", True),
                                             ("maximize", True)]},
}  # fmt: skip


def _trained(how: str, change: Callable[[int, dict[str, Any]], None]) -> Any:
    """A parameter after twelve steps of Adam, between which its settings change."""
    w = cr.tensor(np.arange(1, 5) / 7, requires_grad=True)
    adam = optim.Adam([w], lr=0.1)

    def step(x: Any) -> Any:
        loss = ((w * x - 1) ** 2).sum()
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss

    def batches() -> Any:
        for k in range(12):
            change(k, adam.param_groups[0])
            yield (cr.tensor(np.full(4, 1.0 + k % 3)),)

    f = step if how == "eager" else cr.jit(step)
    if how == "loop":
        cr.jit(step).loop(batches())
    else:
        for batch in batches():
            f(*batch)
    return w.detach().numpy()


@pytest.mark.parametrize("how", ["calls", "loop"])
@pytest.mark.parametrize("name", CHANGES)
def test_settings_change_between_steps(name: str, how: str):
    want, unchanged = (_trained("eager", c) for c in (CHANGES[name], lambda k, group: None))
    assert abs(want - unchanged).max() > 1e-6
    np.testing.assert_allclose(_trained(how, CHANGES[name]), want, rtol=1e-12)


@pytest.mark.parametrize("how", ["eager", "calls", "loop"])
def test_a_rate_that_makes_no_sense_is_refused_between_steps(how: str):
    with pytest.raises(cr.ConfigError, match="lr is a number that is not negative"):
        _trained(how, _from_the_sixth("lr", -1.0))


def test_a_rate_of_zero():
    def between(run: Run, k: int) -> None:
        run.opt.param_groups[0]["lr"] = [0.1, 0.0, 0.2, 0, 1][k]

    side_by_side(Mlp, lambda p: optim.SGD(p, lr=0.0, momentum=0.5), vectors, between=between)


def test_a_decay_that_is_switched_on():
    def between(run: Run, k: int) -> None:
        run.opt.param_groups[0]["weight_decay"] = [0.0, 0.3, 0.2, 0.0, 0.0][k]

    side_by_side(Mlp, OPTIMIZERS["adam"], vectors, between=between, traces=2)


def test_accumulation():
    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        opt.zero_grad()
        parts = optim.accumulate([(x[:2], y[:2]), (x[2:], y[2:])])
        for micro in parts:
            micro.backward(model.loss(*micro.part))
        opt.step()
        return parts.loss

    side_by_side(Mlp, OPTIMIZERS["adam"], vectors, step=step)


def test_a_step_every_other_call():
    """Gradients are left behind by one call and used by the next one."""

    def run(jitted: bool) -> Any:
        model = Mlp(cr.Generator(1))
        opt = optim.AdamW(model.parameters(), lr=0.01)
        add: Any = lambda x, y: (model.loss(x, y) / 2).backward()
        act: Any = lambda: (opt.step(), opt.zero_grad())[0]
        if jitted:
            add, act = cr.jit(add), cr.jit(act)
        r = np.random.default_rng(0)
        for k in range(6):
            add(*vectors(r))
            if k % 2:
                act()
        return model.state_dict(), [p.grad for p in model.parameters()]

    assert_same(run(True), run(False))


@pytest.mark.parametrize("order", [2.0, 1.0, np.inf])
def test_clipping(order: float):
    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        opt.zero_grad()
        model.loss(x, y).backward()
        total = optim.clip_grad_norm(model.parameters(), 0.3, order)
        optim.clip_grad_value(model.parameters(), 0.05)
        opt.step()
        return total

    side_by_side(Mlp, OPTIMIZERS["sgd"], vectors, step=step)


def test_checkpoints_inside():
    def make(g: cr.Generator) -> Any:
        model = gpt(g)
        model.blocks = [nn.Checkpoint(b) for b in model.blocks]
        return model

    side_by_side(make, OPTIMIZERS["adam"], tokens)


def test_per_example_gradients_and_curvature_inside():
    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        w = model.a.weight.detach()

        def loss(v: Any, row: Any) -> Any:
            return (cr.tanh(v @ row) ** 2).sum()

        each = cr.vmap(cr.grad(loss), (None, 0))(w, x)
        curved = cr.hvp(lambda v: cr.vmap(loss, (None, 0))(v, x).sum(), (w,), (w,))[0]
        outer = cr.jacobian(lambda v: cr.softmax(v))(x[0])
        model.a.weight.data = w - 0.01 * each.mean(axis=0) - 0.001 * curved
        return outer @ w[0]

    side_by_side(Mlp, OPTIMIZERS["sgd"], vectors, step=step)


def test_only_some_parameters_get_gradients():
    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = (model.a(x) ** 2).mean() if y.shape[0] == 6 else model.loss(x, y)
        loss.backward()
        opt.step()
        return loss

    sizes = iter([6, 6, 4, 4, 6])

    def data(r: np.random.Generator) -> Any:
        n = next(sizes)
        return cr.tensor(r.normal(size=(n, 5)).astype(np.float32)), cr.tensor(r.integers(0, 3, n))

    side_by_side(Mlp, OPTIMIZERS["adam"], data, step=step, traces=2)


def test_states_are_loaded_between_calls():
    saved: dict[Any, Any] = {}

    def between(run: Run, k: int) -> None:
        if k == 1:
            saved[run] = run.model.state_dict(), run.opt.state_dict()
        if k == 3:
            run.model.load_state_dict(saved[run][0])
            run.opt.load_state_dict(saved[run][1])

    side_by_side(Mlp, OPTIMIZERS["adam"], vectors, between=between, steps=6)


def test_eager_and_compiled_steps_take_turns():
    def run(turns: bool) -> Any:
        model = Mlp(cr.Generator(1))
        opt = optim.AdamW(model.parameters(), lr=0.01)
        eager: Any = lambda x, y: plain_step(model, opt, x, y)
        compiled = cr.jit(eager)
        r = np.random.default_rng(0)
        for k in range(6):
            (compiled if turns and k % 3 else eager)(*vectors(r))
        return model.state_dict()

    assert_same(run(True), run(False))


def test_moments_that_decay_are_set_to_zero():
    w = cr.tensor([1.0, 2.0], requires_grad=True)
    opt = optim.SGD([w], lr=0.1, momentum=0.1)

    @cr.jit
    def step(x: Any) -> None:
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()

    step(cr.tensor([1e-30, 1.0]))
    for _ in range(12):
        step(cr.tensor([0.0, 1.0]))
    momentum = opt.state_dict()["state"][0]["momentum_buffer"]
    assert momentum[0] == 0, "1e-42 would be a denormal number"
    assert momentum[1] > 1


def test_mixed_precision():
    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        opt.zero_grad()
        with cr.autocast():
            loss = model.loss(x, y)
        loss.backward()
        opt.step()
        return loss

    models = [Mlp(cr.Generator(7)) for _ in range(2)]
    losses: list[Any] = []
    for model, wrap in zip(models, (lambda f: f, cr.jit), strict=True):
        opt = optim.SGD(model.parameters(), lr=0.05)
        f = wrap(lambda x, y, model=model, opt=opt: step(model, opt, x, y))
        r = np.random.default_rng(0)
        losses.append([f(*vectors(r)).item() for _ in range(4)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=5e-3)


def test_an_optimizer_that_steps_within_backward():
    """Each parameter takes its step as soon as its gradient is there, which is then let go."""

    def make(g: cr.Generator) -> Any:
        model = Mlp(g)
        for p in model.parameters():
            opt = optim.SGD([p], lr=0.05, momentum=0.9)
            p.register_post_accumulate_grad_hook(lambda p, opt=opt: (opt.step(), opt.zero_grad()))
        return model

    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        loss = model.loss(x, y)
        loss.backward()
        return loss

    side_by_side(make, OPTIMIZERS["sgd"], vectors, step=step)


def test_hooks_of_modules_and_tensors_are_part_of_the_trace():
    def make(g: cr.Generator) -> Any:
        model = Mlp(g)
        model.a.register_forward_hook(lambda module, args, y: y * 1.5)
        model.b.register_full_backward_hook(lambda module, gi, go: tuple([v * 0.5 for v in gi]))
        model.b.weight.register_hook(lambda grad: grad * 2)
        return model

    side_by_side(make, OPTIMIZERS["adam"], vectors)
