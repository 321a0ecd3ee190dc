"""Modules: what they find in their attributes, what they compute (as PyTorch does), their state."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ConfigError, ShapeError

torch = pytest.importorskip("torch")


class Net(nn.Module):
    """One of everything that the walk over attributes must see, or must not."""

    def __init__(self) -> None:
        self.scale = cr.tensor([1.0, 2.0, 3.0], requires_grad=True)
        self.mean = cr.tensor([0.5, 0.5, 0.5])
        self.parts = [nn.Linear(3, 4), (nn.ReLU(), nn.Linear(4, 2, bias=False))]
        self.by_name = {"out": nn.Linear(2, 1)}
        self.tied = self.parts[0]
        self._cache = cr.tensor([9.0], requires_grad=True)
        self.depth = 2

    def forward(self, x: Any) -> Any:
        first, (activation, second) = self.parts
        return self.by_name["out"](second(activation(first((x - self.mean) * self.scale))))


NAMES = [
    "scale", "mean", "parts.0.weight", "parts.0.bias", "parts.1.1.weight", "by_name.out.weight",
    "by_name.out.bias",
]  # fmt: skip


def test_attributes_are_what_they_are() -> None:
    net = Net()
    assert [name for name, _ in net.named_tensors()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["mean"]
    assert [name for name, _ in net.named_parameters()] == [n for n in NAMES if n != "mean"]
    assert net.num_parameters() == 3 + 12 + 4 + 8 + 2 + 1
    assert [name for name, _ in net.named_modules()] == [
        "", "parts.0", "parts.1.0", "parts.1.1", "by_name.out",
    ]  # fmt: skip


def test_freezing_makes_a_buffer_of_a_parameter() -> None:
    net = Net()
    net.parts[0].requires_grad_(False)
    assert [name for name, _ in net.named_buffers()] == ["mean", "parts.0.weight", "parts.0.bias"]


def test_zero_grad_forgets_all() -> None:
    net = Net()
    net(cr.ones((5, 3))).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_train_and_eval_reach_everything() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.5)))
    x = cr.ones((8, 4))
    assert net.training
    assert (net(x) != net(x)).any()
    net.eval()
    assert not any(m.training for _, m in net.named_modules())
    assert (net(x) == net(x)).all()


def test_repr_counts_parameters() -> None:
    text = repr(nn.Sequential(nn.Linear(300, 20), nn.ReLU(), nn.Linear(20, 3, bias=False)))
    lines = text.splitlines()
    assert lines[0] == "Sequential()  6,080 parameters"
    assert lines[1].split() == ["0:", "Linear(in_features=300,", "out_features=20)", "6,020"]
    assert lines[2].split() == ["1:", "ReLU()"]
    assert lines[3].split()[-1] == "60"


# --- State ---------------------------------------------------------------------------------------


def test_state_dict_is_a_snapshot_that_loads() -> None:
    a, b = Net(), Net()
    state = a.state_dict()
    assert list(state) == NAMES
    kept = {name: t.numpy().copy() for name, t in state.items()}
    a.scale.data = np.zeros(3)
    assert (state["scale"].numpy() == kept["scale"]).all()
    assert b.load_state_dict({n: t.numpy() for n, t in state.items()}) == ([], [])
    for name, t in b.named_tensors():
        np.testing.assert_array_equal(t.detach().numpy(), kept[name])
    assert b.scale.requires_grad
    assert not b.mean.requires_grad


def test_loading_converts_to_the_dtype_that_is_there() -> None:
    layer = nn.Linear(2, 2)
    layer.load_state_dict({"weight": np.eye(2), "bias": np.zeros(2)})
    assert layer.weight.dtype == np.float32


def test_load_errors_name_every_key_and_change_nothing() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.data
    with pytest.raises(cr.ConfigError) as caught:
        layer.load_state_dict({"weight": np.zeros((2, 4)), "extra": 1.0, "more": 2.0})
    text = str(caught.value)
    assert "Linear" in text
    assert "weight has shape (2, 4), needed is (2, 3)" in text
    assert "missing: bias" in text
    assert "unexpected: extra, more" in text
    with pytest.raises(cr.ConfigError):
        layer.load_state_dict({"weight": np.zeros((2, 3)), "bias": np.zeros(3)}, strict=False)
    assert (layer.weight == before).all()
    loose = layer.load_state_dict({"bias": np.ones(2), "extra": 1.0}, strict=False)
    assert loose == (["weight"], ["extra"])
    assert layer.bias is not None
    assert (layer.bias == 1).all()


def test_deepcopy_is_independent() -> None:
    net = Net()
    twin = copy.deepcopy(net)
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in net.named_parameters()]
    twin.scale.data = np.zeros(3)
    assert (net.scale != 0).all()


# --- Layers against PyTorch ----------------------------------------------------------------------


def _numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def _compare(ours: nn.Module, theirs: Any, x: Any, *, integers: bool = False) -> None:
    """The same state in, the same value and the same gradients out."""
    theirs = theirs.double()
    state = {k: _numbers(*v.shape, seed=i) for i, (k, v) in enumerate(theirs.state_dict().items())}
    ours.load_state_dict(state)
    theirs.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    a = cr.tensor(x, requires_grad=not integers)
    b = torch.tensor(x, requires_grad=not integers)
    ya, yb = ours(a), theirs(b)
    np.testing.assert_allclose(ya.detach().numpy(), yb.detach().numpy(), rtol=1e-12, atol=1e-12)
    g = _numbers(*ya.shape, seed=99)
    ya.backward(g)
    yb.backward(torch.tensor(g))
    pairs = [(p.grad, dict(theirs.named_parameters())[n].grad) for n, p in ours.named_parameters()]
    if not integers:
        pairs.append((a.grad, b.grad))
    for ga, gb in pairs:
        assert ga is not None
        np.testing.assert_allclose(ga.numpy(), gb.numpy(), rtol=1e-11, atol=1e-12)


F64 = {"dtype": np.float64}
PAIRS = {
    "linear": (lambda: nn.Linear(5, 3, **F64), lambda: torch.nn.Linear(5, 3)),
    "linear, no bias": (
        lambda: nn.Linear(5, 3, False, **F64), lambda: torch.nn.Linear(5, 3, False),
    ),
    "layer norm": (lambda: nn.LayerNorm(5, **F64), lambda: torch.nn.LayerNorm(5)),
    "layer norm, no bias": (
        lambda: nn.LayerNorm(5, bias=False, **F64), lambda: torch.nn.LayerNorm(5, bias=False),
    ),
    "layer norm, plain": (
        lambda: nn.LayerNorm(5, 1e-3, False), lambda: torch.nn.LayerNorm(5, 1e-3, False),
    ),
    "rms norm": (lambda: nn.RMSNorm(5, **F64), lambda: torch.nn.RMSNorm(5)),
    "rms norm, plain": (
        lambda: nn.RMSNorm(5, 1e-3, False), lambda: torch.nn.RMSNorm(5, 1e-3, False),
    ),
    "relu": (nn.ReLU, torch.nn.ReLU),
    "gelu": (nn.GELU, torch.nn.GELU),
    "gelu, tanh": (lambda: nn.GELU("tanh"), lambda: torch.nn.GELU("tanh")),
    "tanh": (nn.Tanh, torch.nn.Tanh),
    "sigmoid": (nn.Sigmoid, torch.nn.Sigmoid),
    "silu": (nn.SiLU, torch.nn.SiLU),
    "sequential": (
        lambda: nn.Sequential(nn.Linear(5, 4, **F64), nn.Tanh(), nn.Linear(4, 2, **F64)),
        lambda: torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_layer_is_pytorchs(name: str) -> None:
    ours, theirs = PAIRS[name]
    _compare(ours(), theirs(), _numbers(2, 7, 5, seed=7))


def test_embedding_is_pytorchs() -> None:
    x = np.array([[3, 0, 3], [6, 2, 1]])
    _compare(nn.Embedding(7, 4, **F64), torch.nn.Embedding(7, 4), x, integers=True)


def test_attention_is_pytorchs() -> None:
    T, C, H = 6, 8, 2
    ours = nn.CausalSelfAttention(C, H, **F64)
    theirs = torch.nn.MultiheadAttention(C, H, batch_first=True).double()
    names = {
        "qkv.weight": "in_proj_weight", "qkv.bias": "in_proj_bias",
        "proj.weight": "out_proj.weight", "proj.bias": "out_proj.bias",
    }  # fmt: skip
    state = {n: _numbers(*t.shape, seed=i) for i, (n, t) in enumerate(ours.named_tensors())}
    ours.load_state_dict(state)
    theirs.load_state_dict({names[n]: torch.tensor(v) for n, v in state.items()})
    x = _numbers(3, T, C, seed=5)
    a, b = cr.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    ahead = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
    ya, yb = ours(a), theirs(b, b, b, attn_mask=ahead, need_weights=False)[0]
    np.testing.assert_allclose(ya.detach().numpy(), yb.detach().numpy(), rtol=1e-11, atol=1e-12)
    (ya * ya).sum().backward()
    (yb * yb).sum().backward()
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-9, atol=1e-9)
    # without a batch axis, the same
    one = ours(cr.tensor(x[1])).detach().numpy()
    np.testing.assert_allclose(one, ya.detach().numpy()[1], rtol=1e-12, atol=1e-13)


def test_block_sees_no_later_position() -> None:
    block = nn.Block(8, 2, **F64)
    x = _numbers(1, 5, 8)
    later = x.copy()
    later[0, 3:] += 1
    y, z = block(cr.tensor(x)).detach().numpy(), block(cr.tensor(later)).detach().numpy()
    np.testing.assert_array_equal(y[0, :3], z[0, :3])
    assert (y[0, 3:] != z[0, 3:]).all()


def test_dropout_scales_what_it_keeps() -> None:
    layer = nn.Dropout(0.25, generator=cr.Generator(1))
    y = layer(cr.ones((1000,))).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.05


def test_attention_dropout_uses_its_generator() -> None:
    x = cr.tensor(_numbers(1, 6, 4))
    ys = [
        nn.Block(4, 2, dropout=0.5, generator=cr.Generator(3), **F64)(x).detach().numpy()
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*ys)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.Linear(0, 3), "in_features is a positive integer, not 0"),
        (lambda: nn.Linear(3, 2.0), "out_features"),  # pyright: ignore[reportArgumentType]
        (lambda: nn.Embedding(-1, 3), "num_embeddings"),
        (lambda: nn.Dropout(1.5), "p is a probability"),
        (lambda: nn.GELU("fast"), "approximate"),
        (lambda: nn.CausalSelfAttention(8, 3), "3 heads do not divide 8 channels"),
    ],
)
def test_settings_that_make_no_sense(make: Any, words: str) -> None:
    with pytest.raises(cr.ConfigError, match=words):
        make()


# --- Initial values ------------------------------------------------------------------------------

INITS = {
    "normal": (lambda x, g: nn.init.normal_(x, 1.0, 0.5, generator=g), 1.0, 0.5),
    "uniform": (lambda x, g: nn.init.uniform_(x, -1.0, 3.0, generator=g), 1.0, 4 / math.sqrt(12)),
    "xavier_uniform": (
        lambda x, g: nn.init.xavier_uniform_(x, 2.0, generator=g), 0.0, 2 * math.sqrt(2 / 500),
    ),
    "xavier_normal": (lambda x, g: nn.init.xavier_normal_(x, generator=g), 0.0, math.sqrt(2 / 500)),
    "kaiming_uniform": (
        lambda x, g: nn.init.kaiming_uniform_(x, math.sqrt(5), generator=g),
        0.0, math.sqrt(1 / 900),
    ),
    "kaiming_normal": (
        lambda x, g: nn.init.kaiming_normal_(x, mode="fan_out", nonlinearity="relu", generator=g),
        0.0, math.sqrt(2 / 200),
    ),
    "trunc_normal": (
        lambda x, g: nn.init.trunc_normal_(x, 1.0, 2.0, -1.0, 3.0, generator=g), 1.0, 1.0793,
    ),
    "orthogonal": (
        lambda x, g: nn.init.orthogonal_(x, 3.0, generator=g), 0.0, 3 / math.sqrt(300),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INITS)
def test_initial_values_have_their_mean_and_deviation(name: str) -> None:
    fill, mean, std = INITS[name]
    x = cr.zeros((200, 300)).requires_grad_()
    assert fill(x, cr.Generator(5)) is x
    values = x.detach().numpy()
    assert abs(values.mean() - mean) < 0.02 * std
    assert abs(values.std() / std - 1) < 0.02
    again = cr.zeros((200, 300))
    fill(again, cr.Generator(5))
    np.testing.assert_array_equal(again.numpy(), values)


def test_constant_values() -> None:
    x = cr.zeros((2, 3))
    assert (nn.init.ones_(x) == 1).all()
    assert (nn.init.zeros_(x) == 0).all()
    assert (nn.init.constant_(x, 2.5) == 2.5).all()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3)])
def test_orthogonal_values(shape: tuple[int, ...]) -> None:
    w = nn.init.orthogonal_(cr.zeros(shape), 2.0).numpy().reshape(shape[0], -1)
    product = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_values_on_a_diagonal_and_between_bounds() -> None:
    np.testing.assert_array_equal(nn.init.eye_(cr.zeros((2, 3))).numpy(), np.eye(2, 3))
    x = nn.init.trunc_normal_(cr.zeros(1000), 0.0, 1.0, 0.5, 0.75)
    assert x.min() >= 0.5
    assert x.max() <= 0.75
    assert len(np.unique(x.numpy())) > 900


def test_bad_init() -> None:
    with pytest.raises(cr.ShapeError, match="eye_ fills a matrix"):
        nn.init.eye_(cr.zeros(3))
    with pytest.raises(cr.ConfigError, match=r"no number of mean 0.0, std 1.0 is in \[2.0, 1.0\]"):
        nn.init.trunc_normal_(cr.zeros(3), 0.0, 1.0, 2.0, 1.0)
    with pytest.raises(cr.ShapeError, match="fan"):
        nn.init.xavier_normal_(cr.zeros((3,)))
    with pytest.raises(cr.ConfigError, match="mode"):
        nn.init.kaiming_normal_(cr.zeros((3, 2)), mode="fan")
    with pytest.raises(cr.ConfigError, match="nonlinearity"):
        nn.init.kaiming_normal_(cr.zeros((3, 2)), nonlinearity="swish")


@pytest.mark.parametrize("activation", [None, "relu", "tanh", "sigmoid", "linear"])
def test_gains_are_pytorchs(activation: str | None) -> None:
    theirs = torch.nn.init.calculate_gain(
        activation or "leaky_relu", 0.2 if not activation else None
    )
    assert nn.init.calculate_gain(activation or "leaky_relu", 0.2) == theirs


def test_default_linear_weights_have_pytorchs_bound() -> None:
    layer = nn.Linear(400, 300, generator=cr.Generator(0))
    values = layer.weight.detach().numpy()
    assert 0.99 / 20 < np.abs(values).max() <= 1 / 20


class Mixed(nn.Module):
    """Parameters and buffers of several dtypes, one of them tied."""

    def __init__(self) -> None:
        self.inner = nn.Linear(2, 2)
        self.tied = self.inner.weight
        self.counts = cr.tensor([1, 2])
        self.turn = cr.tensor([1j], dtype=np.complex64)
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: cr.Tensor) -> cr.Tensor:
        return self.norm(self.inner(x)) * self.counts


@pytest.mark.parametrize("dtype", [cr.float64, cr.float16, cr.bfloat16, cr.complex128, "float64"])
def test_a_module_is_converted_in_place(dtype: Any) -> None:
    net = Mixed()
    new, before = (
        np.dtype(dtype),
        {n: (t, t.dtype, t.requires_grad) for n, t in net.named_tensors()},
    )
    values = net.state_dict()
    assert net.to(dtype) is net
    for name, t in net.named_tensors():
        same, old, needs = before[name]
        stays = old.kind not in "fc" or (old.kind == "c" and new.kind != "c")
        assert t is same and t.dtype == (old if stays else new) and t.requires_grad == needs
        assert np.array_equal(t.detach().numpy(), values[name].astype(t.dtype).numpy())


def test_a_compiled_step_follows_a_conversion() -> None:
    net = nn.Linear(3, 2)
    step = cr.jit(lambda x: net(x).sum())
    x = np.ones((4, 3), np.float32)
    assert step(x).dtype == np.float32
    net.to(cr.float64)
    assert step(x).dtype == np.float64
    net(x).sum().backward()
    assert net.weight.grad is not None and net.weight.grad.dtype == np.float64


def test_what_a_module_is_not_converted_to() -> None:
    net = nn.Linear(3, 2)
    with pytest.raises(cr.DtypeError, match="computes with floating-point numbers, not int64"):
        net.to(np.int64)
    with pytest.raises(cr.DtypeError, match="a module cannot have 'nonsense'"):
        net.to("nonsense")
    with pytest.raises(cr.ConfigError, match="before a function of it is compiled"):
        cr.jit(lambda x: net.to(cr.float64)(x))(np.ones((1, 3), np.float32))


class Policy(nn.Module):
    """A module whose methods compute; it has no forward."""

    def __init__(self) -> None:
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 2)

    def logits(self, x: Any) -> Any:
        return self.head(cr.relu(self.body(x)))

    def _scale(self) -> float:
        return 1.0


def test_a_module_needs_no_forward_until_it_is_called() -> None:
    policy = Policy()
    assert policy.logits(cr.ones((3, 4))).shape == (3, 2) and policy.num_parameters() == 58
    with pytest.raises(ConfigError) as caught:
        policy(cr.ones((3, 4)))
    assert str(caught.value) == (
        "Policy has no forward, which a call of it runs: state forward(self, x), or call a method "
        "that it has: logits()"
    )


@pytest.mark.parametrize("freeze", [True, False])
def test_tables_of_trained_vectors(freeze: bool) -> None:
    table = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    i = np.array([[1, 2, 2], [0, 3, 1]])
    for ours, theirs in (
        (nn.Embedding.from_pretrained, torch.nn.Embedding.from_pretrained),
        (nn.EmbeddingBag.from_pretrained, torch.nn.EmbeddingBag.from_pretrained),
    ):
        mine, other = ours(table, freeze), theirs(torch.from_numpy(table), freeze)
        assert mine(i).tolist() == other(torch.from_numpy(i)).tolist()
        assert len(mine.parameters()) == (not freeze) and list(mine.state_dict()) == ["weight"]
        padded = ours(cr.tensor(table), freeze, padding_idx=2)
        assert padded.weight.tolist() == table.tolist() and padded.padding_idx == 2
        with pytest.raises(ShapeError, match=r"from_pretrained: .* not \(3,\)"):
            ours(table[0])


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("given", [False, True])
def test_a_recurrent_layer_takes_numbers_of_another_dtype(kind: str, given: bool) -> None:
    """As a Linear layer does: NumPy's float64 arrays, and integers."""
    layer, other = getattr(nn, kind)(3, 4), getattr(torch.nn, kind)(3, 4).double()
    other.load_state_dict({k: torch.tensor(v.numpy()) for k, v in layer.state_dict().items()})
    for x in (np.arange(30.0).reshape(5, 2, 3) / 17, np.arange(30).reshape(5, 2, 3)):
        first = cr.full((1, 2, 4), 0.25)
        state = () if not given else ((first, first),) if kind == "LSTM" else (first,)
        theirs = [tuple([torch.tensor(s.numpy()).double() for s in t]) if isinstance(t, tuple)
                  else torch.tensor(t.numpy()).double() for t in state]  # fmt: skip
        y, expected = layer(x, *state)[0], other(torch.tensor(x).double(), *theirs)[0]
        assert y.dtype == np.float64
        np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-12)
