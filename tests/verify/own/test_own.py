"""Functions, Functions, modules and Values of chainrule: right ones pass, wrong ones are found."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, verify
from chainrule.engine.op import Op
from chainrule.errors import ConfigError, GradientError
from chainrule.random import default_generator
from chainrule.scalar import Value
from chainrule.transforms.checkpointing import checkpoint
from chainrule.verify.own.call import subject_of_call
from chainrule.verify.own.forward_mode import forward_mode_of
from chainrule.verify.own.function import subject_of_function
from chainrule.verify.own.model import loss_of
from chainrule.verify.own.module import subject_of_module
from chainrule.verify.subject import values
from tests.ops.sample import apart
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=12)


X, W, ROWS = apart(3, 4), apart(4, 5, salt=1), np.array([0, 2])


def line_of(text: str) -> int:
    """The line of this file that begins with `text`."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))


def found(report: Any) -> list[tuple[str, str]]:
    return [(f.subject, f.input) for f in report.findings if f.level != "note"]


# --- Functions -----------------------------------------------------------------------------------

RIGHT: list[tuple[Any, tuple[Any, ...]]] = [
    (lambda x, w: np.tanh(x @ w), (X, W)),
    (lambda x: cr.softmax(x, axis=-1), (cr.tensor(X),)),
    (lambda x: cr.softmax(x, axis=-1), (X.astype(np.float32),)),
    (lambda x: cr.gelu(x), (X.astype(np.float16),)),
    (lambda x: cr.relu(x) + abs(x), (cr.tensor(X, dtype=cr.bfloat16),)),
    (lambda x: cr.relu(x).max(axis=0), (np.round(X),)),
    (
        lambda p, i: cr.embedding(p["table"], i) * p["scale"],
        ({"table": X, "scale": 1.5}, np.array([0, 2])),
    ),
    (lambda x, w: cr.dropout(x @ w, 0.3, training=True), (X, W)),
    (lambda z: cr.abs(z * z), (X + 1j * X[::-1],)),
    (lambda x: x**3 + 2.0 * x, (1.5,)),
    (lambda x: cr.where(x > 0, cr.sqrt(x), 0.0), (X,)),
    (cr.jit(lambda x: cr.softmax(x, axis=-1)), (cr.tensor(X),)),
    (checkpoint(lambda x: cr.tanh(x) * x), (cr.tensor(X),)),
]


@pytest.mark.parametrize(("f", "args"), RIGHT)
def test_right_functions_are_certified(f: Any, args: tuple[Any, ...]):
    report = verify.check(f, *args)
    assert report.ok, str(report)
    assert report.ledger.checked and report.ledger.planted is not None
    assert report.ledger.planted.caught


def test_casts_to_narrow_dtypes_inside_are_no_mistake():
    assert verify.check(lambda x: cr.tanh(x.astype(np.float16)).astype(np.float64), X).ok
    assert verify.check(lambda x: x.astype(np.float32) * 2, X).ok


def test_a_cut_is_found_at_its_line():
    def scaled(x: Any) -> Any:
        size = (x * x).sum().detach()
        return x / size

    report = verify.check(scaled, X)
    assert found(report) == [("scaled", "x")]
    finding = report.findings[0]
    assert finding.name.code == "partly_detached" and finding.place is not None
    assert finding.place.line == line_of("size = (x * x).sum().detach()")


def test_the_user_s_op_inside_a_function_is_the_culprit():
    report = verify.check(lambda x: cr.sum(Cubed.apply(x) * 2.0), cr.tensor(X))
    assert found(report) == [("Cubed", "x")]
    place = report.findings[0].place
    assert place is not None and place.file == __file__
    assert abs(place.line - line_of("return 3 * x * g")) <= 4


class Cubed(cr.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * g


class Curved(Op):
    """exp, whose rule is right but cannot be differentiated rightly: it takes y off the graph."""

    @property
    def name(self) -> str:
        return "curved"

    def eval(self, *xs: Any) -> Any:
        return np.exp(xs[0])

    def spec(self, *xs: Any) -> Any:
        return xs[0]

    def reads(self, i: int) -> tuple[int, ...]:
        return (0,)

    def vjp(self, need: Any, g: Any, y: Any, xs: Any) -> Any:
        return (g * (y.value if isinstance(y, cr.Tensor) else y),)

    def jvp(self, ts: Any, y: Any, xs: Any) -> Any:
        return ts[0] * y


def test_what_is_wrong_at_second_order_only_is_found_there():
    curved = lambda x: Curved()(x) * 2.0
    assert verify.check(curved, X).ok
    report = verify.check(curved, X, order=2)
    assert found(report) == [("first derivative of <lambda>", "x")]
    assert verify.check(lambda x: cr.exp(x) * 2.0, X, order=3).ok


class Outside(Cubed):
    """Saves what is neither an argument nor a result, so that it has one derivative only."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = 3 * x * x
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.slope * g


def test_a_derivative_that_the_engine_refuses_is_skipped_and_not_wrong():
    report = verify.check(lambda x: Outside.apply(x), cr.tensor(X), order=2)
    assert report.ok
    assert any("cannot be differentiated twice" in s.why for s in report.ledger.skipped)


class Leaning(Op):
    """A right vjp and a wrong jvp."""

    @property
    def name(self) -> str:
        return "leaning"

    def eval(self, *xs: Any) -> Any:
        return np.sin(xs[0])

    def spec(self, *xs: Any) -> Any:
        return xs[0]

    def reads(self, i: int) -> tuple[int, ...]:
        return (1,)

    def vjp(self, need: Any, g: Any, y: Any, xs: Any) -> Any:
        return (g * cr.cos(xs[0]),)

    def jvp(self, ts: Any, y: Any, xs: Any) -> Any:
        return ts[0] * cr.sin(xs[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forward_mode_of_complex_results(dtype: Any):
    report = verify.check(lambda x: cr.fft.rfft(x) * (1 + 2j), X.astype(dtype))
    assert report.ok and any("forward mode" in c.subject for c in report.ledger.checked)


def test_forward_mode_is_looked_at_too():
    assert verify.check(lambda x: cr.sin(x), X).ok
    report = verify.check(lambda x: Leaning()(x), X)
    assert [name for name, _ in found(report)] == ["<lambda>, forward mode"]
    assert forward_mode_of(subject_of_call(lambda z: z * z, [X + 1j])) is None


def test_inputs_have_the_names_that_the_user_gave():
    made = subject_of_call(lambda p, *xs: p["w"][0] * xs[0] + xs[1], [{"w": [X]}, X, X])
    assert [x.name for x in made.inputs] == ["p['w'][0]", "xs[0]", "xs[1]"]


def test_arguments_reach_the_function_as_they_were_given():
    kinds: list[Any] = []

    def f(x: Any, i: Any, j: Any, k: Any) -> Any:
        kinds.append((type(x), type(i), type(j), type(k)))
        return x[j] * k

    verify.check(f, X, cr.tensor([1]), np.array([0, 2]), 3)
    assert set(kinds) == {(cr.Tensor, cr.Tensor, np.ndarray, int)}


def test_nothing_to_differentiate_says_what_to_do():
    with pytest.raises(GradientError, match=r"nothing to differentiate: .* int64 .*astype"):
        verify.check(lambda i: i, np.arange(3))
    with pytest.raises(GradientError, match="no floating-point tensor"):
        verify.check(lambda x: x > 0, X)
    with pytest.raises(ConfigError, match="order is 1 or more"):
        verify.check(cr.exp, X, order=0)
    with pytest.raises(ConfigError, match="no Function class"):
        verify.function(cr.exp, X)
    with pytest.raises(ConfigError, match="no Module"):
        verify.model(cr.exp, X)


def test_a_module_or_its_class_is_a_function_too():
    assert verify.check(nn.Linear(4, 2), X).ok
    assert verify.function(Halved, cr.tensor(X)).ok
    with pytest.raises(ConfigError, match="Net cannot be made without arguments"):
        verify.function(Net, cr.tensor(X))


class Halved(nn.Module):
    def __init__(self) -> None:
        self.weight = cr.tensor([0.5, 1.5, -1.0, 2.0], requires_grad=True)

    def forward(self, x: Any) -> Any:
        return x * self.weight / 2


def test_random_streams_are_where_they_were():
    default_generator.manual_seed(3)
    random.seed(4)
    rng = np.random.default_rng(5)

    def noisy(x: Any) -> Any:
        kept = rng.random(x.shape) > random.random() / 2
        return cr.dropout(x, 0.5, training=True) * kept

    states = (default_generator.state, random.getstate(), rng.bit_generator.state)
    assert verify.check(noisy, X).ok
    assert states == (default_generator.state, random.getstate(), rng.bit_generator.state)


def test_values_are_certified():
    a, b = Value(2.0), Value(-3.0)
    assert verify.check(lambda a, b: (a * b + 10).relu() ** 2, a, b).ok
    assert a.grad == 0, "the user's Values stay as they are"


def test_a_wrong_value_is_found():
    def double(x: Value) -> Value:
        out = Value(x.data * 2, (x,), (3.0,))
        return out * out

    assert found(verify.check(double, Value(1.5))) == [("double", "x")]


# --- Functions with a backward of their own ------------------------------------------------------


def doubled(backward: Any, jvp: Any = None) -> Any:
    """x, w -> 2 x w, with this backward."""

    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return 2 * x * w

    space: dict[str, Any] = {"forward": forward, "backward": backward}
    if jvp is not None:
        space["jvp"] = jvp
    return type("Doubled", (cr.Function,), {k: staticmethod(f) for k, f in space.items()})


def right(ctx: Any, g: Any) -> Any:
    x, w = ctx.saved_tensors
    return 2 * g * w, 2 * g * x


WRONG: list[tuple[Any, str]] = [
    (lambda ctx, g: (2 * g * ctx.saved_tensors[1], None), "dropped"),
    (lambda ctx, g: (-2 * g * ctx.saved_tensors[1], 2 * g * ctx.saved_tensors[0]), "sign"),
    (lambda ctx, g: (2 * g * ctx.saved_tensors[1], (2 * g * ctx.saved_tensors[0])[:1]), ""),
    (lambda ctx, g: 2 * g, "raises"),
]


@pytest.mark.parametrize(("backward", "code"), WRONG)
def test_what_a_backward_really_returns_is_judged(backward: Any, code: str):
    report = verify.function(doubled(backward), cr.tensor(X), cr.tensor(X[::-1]))
    assert not report.ok
    assert not code or report.findings[0].name.code == code
    assert verify.function(doubled(right), cr.tensor(X), cr.tensor(X[::-1])).ok


def test_a_stated_jvp_is_judged_too():
    def jvp(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        x, w = ctx.saved_tensors
        return 2 * sum([t * v for t, v in ((x_dot, w), (w_dot, x)) if t is not None])

    def wrong(ctx: Any, x_dot: Any, w_dot: Any) -> Any:
        return jvp(ctx, x_dot, w_dot) * 0.5

    args = (cr.tensor(X), cr.tensor(X[::-1]))
    assert verify.function(doubled(right, jvp), *args).ok
    report = verify.function(doubled(right, wrong), *args)
    assert {name for name, _ in found(report)} == {"Doubled.jvp"}


def test_cotangents_keep_their_strides():
    seen: list[Any] = []

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(g.value.strides)
        return right(ctx, g)

    made = subject_of_function(doubled(backward), (X, X[::-1]))
    made.pull(values(made), [apart(4, 3).T])
    assert seen == [apart(4, 3).T.strides]


# --- Modules -------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, op: Any) -> None:
        self.inner = nn.Linear(4, 6)
        self.norm = nn.LayerNorm(6)
        self.outer = nn.Linear(6, 3)
        self.op = op

    def forward(self, x: Any) -> Any:
        return self.outer(self.op(self.norm(self.inner(x))))


BATCH = (cr.tensor(X.astype(np.float32)), cr.tensor([0, 2, 1]))


def test_a_right_model_is_certified_part_by_part_and_left_as_it_was():
    net = Net(cr.tanh)
    before = {name: t.numpy().copy() for name, t in net.state_dict().items()}
    report = verify.model(net, BATCH, loss=cr.cross_entropy)
    assert report.ok, str(report)
    names = [c.subject for c in report.ledger.checked]
    assert {"matmul", "tanh", "logsumexp", "Net"} <= set(names) and names[-1] == "Net"
    assert all(np.array_equal(before[k], t.numpy()) for k, t in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


def test_the_wrong_function_in_a_model_is_the_culprit():
    report = verify.model(Net(Cubed.apply), BATCH, loss=cr.cross_entropy)
    assert found(report) == [("Cubed", "x")]


def test_a_hook_that_changes_gradients_is_found_at_its_module():
    net = Net(cr.tanh)
    net.norm.register_full_backward_hook(lambda m, gi, go: tuple([g * 0.5 for g in gi]))
    report = verify.model(net, BATCH, loss=cr.cross_entropy)
    assert {name for name, _ in found(report)} == {"norm"}


def test_parameters_without_a_gradient_are_named():
    net = Net(cr.tanh)
    net.unused = nn.Linear(2, 2)
    report = verify.model(net, BATCH, loss=cr.cross_entropy)
    names = [(f.input, f.name.code, f.level) for f in report.findings]
    assert names == [
        ("unused.weight", "no_gradient", "warning"),
        ("unused.bias", "no_gradient", "warning"),
    ]


class Cut(nn.Module):
    """Takes a value off the graph, in one of the ways in which that happens."""

    def __init__(self, how: str) -> None:
        self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 3)
        self.how = how

    def forward(self, x: Any) -> Any:
        h = cr.tanh(x)
        if self.how == "detach()":
            h = h + self.inner(h).detach()
        elif self.how == "item()":
            h = self.inner(h) * (h * h).sum().item()
        else:
            with cr.no_grad():
                h = self.inner(h)
        return self.outer(h)


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("detach()", "h = h + self.inner(h).detach()"),
        ("item()", "h = self.inner(h) * (h * h).sum().item()"),
        ("no_grad", "h = self.inner(h)"),
    ],
)
def test_a_cut_in_a_model_is_one_finding_at_its_line(how: str, line: str):
    report = verify.model(Cut(how), BATCH, loss=cr.cross_entropy)
    assert len(report.findings) == 1, str(report)
    finding = report.findings[0]
    assert finding.name.code in ("detached", "partly_detached") and how in finding.name.because
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert finding.place is not None
    assert lines[finding.place.line - 1].strip() == line


def test_losses_are_called_as_they_are_written():
    net = Net(cr.tanh)
    x, _ = BATCH
    ways: list[tuple[Any, Any, tuple[int, ...]]] = [
        (x, None, (3, 3)),
        (x, lambda output: (output**2).sum(), ()),
        (BATCH, lambda model, batch: model(batch[0]).sum(axis=0), (3,)),
        (BATCH, cr.cross_entropy, ()),
    ]
    for batch, loss, shape in ways:
        run, args = loss_of(net, batch, loss)
        assert run(*args).shape == shape
    with pytest.raises(ConfigError, match="the batch has one part"):
        verify.model(net, x, loss=cr.cross_entropy)


def test_a_module_s_random_and_running_state_stays():
    class Counts(nn.Module):
        def __init__(self) -> None:
            self.weight = cr.tensor([1.0, 2.0], requires_grad=True)
            self.mean = cr.tensor([0.0, 0.0])
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.mean = (0.9 * self.mean + 0.1 * x.mean(axis=0)).detach()
            return cr.dropout(x * self.weight, 0.5, training=True)

    net = Counts()
    assert verify.model(net, cr.tensor([[0.5, -1.5], [2.5, 1.0]])).ok
    assert net.calls == 0 and net.mean.tolist() == [0.0, 0.0]
    made = subject_of_module(net, net, [cr.tensor([[0.5, -1.5]])])
    assert [x.name for x in made.inputs] == ["x", "weight"] or made.inputs[1].name == "weight"


# --- pytest --------------------------------------------------------------------------------------


def test_the_message_of_the_assertion_is_the_diagnosis():
    verify.assert_gradients(cr.gelu, X)
    verify.assert_gradients(np.sin, lambda g, x: g * np.cos(x), X)
    with pytest.raises(AssertionError) as failure:
        verify.assert_gradients(np.sin, lambda g, x: -g * np.cos(x), X)
    text = str(failure.value)
    assert "sign flipped" in text and "test_own.py" in text and "planted" in text
    with pytest.raises(AssertionError, match="Cubed"):
        verify.assert_gradients(Cubed, cr.tensor(X))


class Weighted(cr.Function):
    """A product of which one factor is data: nobody asks for its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        _, w = ctx.saved_tensors
        return g * w, None


@pytest.mark.parametrize("needed", [(True, False), (True, True)])
def test_a_gradient_that_no_call_needs_is_not_missed(needed: tuple[bool, bool]):
    x, w = [cr.tensor(X, requires_grad=r) for r in needed]
    assert verify.function(Weighted, x, w).ok is not needed[1]


class SquaredHinge(cr.Function):
    @staticmethod
    def forward(ctx: Any, s: Any, y: Any) -> Any:
        gap = cr.relu(1 - y * s)
        ctx.save_for_backward(gap, y)
        return (gap * gap).sum(axis=-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        gap, y = ctx.saved_tensors
        return (-2 * g)[:, None] * y * gap, None


def test_an_array_beside_tensors_is_a_constant():
    s, y = np.random.default_rng(1).normal(size=(2, 3, 4))
    assert verify.function(SquaredHinge, cr.tensor(s), np.sign(y)).ok
    for args in ((s, np.sign(y)), (cr.tensor(s), cr.tensor(np.sign(y)))):
        (finding,) = verify.function(SquaredHinge, *args).findings
        assert (finding.input, finding.name.code) == ("y", "dropped")


class Dropped(cr.Function):
    mask: Any = None
    shared = True

    @staticmethod
    def forward(ctx: Any, x: Any, noise: Any) -> Any:
        ctx.mask = Dropped.mask = (noise < 0.6) / 0.6
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (Dropped.mask if Dropped.shared else ctx.mask), None


def test_a_mask_that_the_next_call_replaces(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    x, noise = cr.tensor(rng.normal(size=(3, 4))), rng.uniform(size=(3, 4))
    (finding,) = verify.function(Dropped, x, noise).findings
    assert finding.name.code == "stale"
    monkeypatch.setattr(Dropped, "shared", False)
    assert verify.function(Dropped, x, noise).ok


class Pool(cr.Function):
    by_share = True

    @staticmethod
    def forward(ctx: Any, x: Any, k: int) -> Any:
        n = x.shape[-1] // k
        ctx.k, ctx.length = k, x.shape[-1]
        return cr.mean(x[..., : n * k].reshape(*x.shape[:-1], n, k), axis=-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        at = np.arange(ctx.length)
        at = at * g.shape[-1] // ctx.length if Pool.by_share else at // ctx.k
        full = np.concatenate([g.numpy(), np.zeros((*g.shape[:-1], 1))], axis=-1)
        return full[..., at] / ctx.k, None


def test_what_a_forward_leaves_over_is_part_of_it(monkeypatch: pytest.MonkeyPatch):
    x = cr.tensor(np.random.default_rng(3).normal(size=(2, 3, 8)))
    (finding,) = verify.function(Pool, x, 2).findings
    assert (finding.level, finding.name.code) == ("error", "size")
    monkeypatch.setattr(Pool, "by_share", False)
    assert verify.function(Pool, x, 2).ok
