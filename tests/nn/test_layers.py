"""Layers that PyTorch's table leaves out, or that it does not have; lists and dicts of modules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from tests.sampling import sampled

torch = pytest.importorskip("torch")


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def twins(mine: nn.Module, theirs: Any) -> None:
    """Give both the same parameters."""
    theirs.double()
    assert sorted(mine.state_dict()) == sorted(theirs.state_dict())
    mine.load_state_dict({k: t.numpy() for k, t in theirs.state_dict().items()})


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-10, atol=1e-12)


def gradients_agree(mine: nn.Module, theirs: Any) -> None:
    other = dict(theirs.named_parameters())
    for name, p in mine.named_parameters():
        assert p.grad is not None, name
        same(p.grad, other[name].grad)


# --- Recurrence ----------------------------------------------------------------------------------


RECURRENT: dict[str, dict[str, Any]] = {
    "RNN": {"nonlinearity": "relu"}, "GRU": {}, "LSTM": {"proj_size": 2},
}  # fmt: skip


@sampled("name", "compiled")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", RECURRENT)
def test_sequences_of_different_lengths_are_pytorchs_packed_ones(
    name: str, bidirectional: bool, compiled: bool
):
    settings = {"num_layers": 2, "bidirectional": bidirectional, **RECURRENT[name]}
    mine = getattr(nn, name)(3, 4, dtype=np.float64, batch_first=True, **settings)
    theirs = getattr(torch.nn, name)(3, 4, batch_first=True, **settings)
    twins(mine, theirs)
    x, lengths = numbers(4, 9, 3), np.array([5, 9, 1, 7])
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        torch.tensor(x), torch.tensor(lengths), batch_first=True, enforce_sorted=False
    )
    y, state = theirs(packed)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
    call = cr.jit(mine) if compiled else mine
    z, mine_state = call(cr.tensor(x), None, cr.tensor(lengths))
    states = zip(
        mine_state if name == "LSTM" else [mine_state], state if name == "LSTM" else [state],
        strict=True,
    )  # fmt: skip
    same(z, y)
    for a, b in states:
        same(a, b)
    g = numbers(*y.shape, seed=1)
    (z * g).sum().backward()
    (y * torch.tensor(g)).sum().backward()
    gradients_agree(mine, theirs)


def test_a_recurrence_in_float32_and_with_dropout():
    lstm = nn.LSTM(3, 4, 2, dropout=0.5, generator=cr.Generator(0))
    x = cr.tensor(numbers(5, 2, 3).astype(np.float32))
    y, (h, c) = lstm(x)
    assert (y.dtype, y.shape, h.shape, c.shape) == (np.float32, (5, 2, 4), (2, 2, 4), (2, 2, 4))
    assert (lstm(x)[0] != y).any()
    lstm.eval()
    assert (lstm(x)[0] == lstm(x)[0]).all()


# --- Attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_is_pytorchs(norm_first: bool):
    settings: dict[str, Any] = {"batch_first": True, "norm_first": norm_first, "dropout": 0.0}
    mine = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(6, 2, 10, activation="gelu", dtype=np.float64, **settings), 2,
        nn.LayerNorm(6, dtype=np.float64),
    )  # fmt: skip
    theirs = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(6, 2, 10, activation="gelu", **settings), 2,
        torch.nn.LayerNorm(6), enable_nested_tensor=False,
    )  # fmt: skip
    twins(mine, theirs)
    x, padding = numbers(3, 5, 6), np.arange(5) >= np.array([[5], [3], [4]])
    causal = np.triu(np.ones((5, 5), bool), 1)
    got = mine(cr.tensor(x), cr.tensor(causal), cr.tensor(padding))
    want = theirs(torch.tensor(x), torch.tensor(causal), torch.tensor(padding))
    same(got, want)
    (got * x).sum().backward()
    (want * torch.tensor(x)).sum().backward()
    gradients_agree(mine, theirs)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_positions_are_rotations_of_complex_numbers(interleaved: bool):
    rotary = nn.RotaryEmbedding(6, base=100.0, interleaved=interleaved)
    x, at = numbers(2, 5, 6), np.array([0, 3, 4, 7, 1])
    pairs = x.reshape(2, 5, 3, 2) if interleaved else np.stack([x[..., :3], x[..., 3:]], axis=-1)
    turned = pairs[..., 0] + 1j * pairs[..., 1]
    turned = turned * np.exp(1j * at[:, None] * 100.0 ** (-np.arange(3) / 3))
    parts = np.stack([turned.real, turned.imag], axis=-1)
    want = parts.reshape(x.shape) if interleaved else np.concatenate(
        [parts[..., 0], parts[..., 1]], axis=-1
    )  # fmt: skip
    np.testing.assert_allclose(rotary(cr.tensor(x), cr.tensor(at)).numpy(), want, rtol=1e-12)
    a, b = rotary(cr.tensor(x)), rotary(cr.tensor(x), np.arange(5) + 2)
    dots = [(t[:, 1] * t[:, 3]).sum().item() for t in (a, b)]
    assert dots[0] == pytest.approx(dots[1])  # only distances matter


# --- Tables of vectors ---------------------------------------------------------------------------


def test_the_row_of_the_padding_is_pytorchs():
    mine, theirs = nn.Embedding(5, 3, -2, dtype=np.float64), torch.nn.Embedding(5, 3, -2)
    assert (mine.weight[3] == 0).all() and mine.padding_idx == theirs.padding_idx == 3
    twins(mine, theirs)
    x = np.array([[3, 0], [1, 3]])
    g = numbers(2, 2, 3)
    (mine(cr.tensor(x)) * g).sum().backward()
    (theirs(torch.tensor(x)) * torch.tensor(g)).sum().backward()
    gradients_agree(mine, theirs)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding_idx", [None, 2])
@pytest.mark.parametrize("last", [False, True])
def test_bags_are_pytorchs(mode: str, padding_idx: int | None, last: bool):
    settings: dict[str, Any] = {"mode": mode, "padding_idx": padding_idx}
    settings["include_last_offset"] = last
    mine = nn.EmbeddingBag(6, 3, dtype=np.float64, **settings)
    theirs = torch.nn.EmbeddingBag(6, 3, **settings)
    twins(mine, theirs)
    flat, offsets = np.array([4, 2, 5, 0, 1, 2, 2]), np.array([0, 2, 2, 5, 7][: 5 if last else 4])
    square = np.array([[4, 2, 5], [2, 0, 1]])
    calls: list[tuple[Any, ...]] = [(flat, offsets)] if last else [(flat, offsets), (square,)]
    if mode == "sum" and not last:
        calls.append((square, None, numbers(2, 3)))
    for call in calls:
        a = mine(*[None if x is None else cr.tensor(x) for x in call])
        b = theirs(*[None if x is None else torch.tensor(x) for x in call])
        same(a, b)
        for model, y, to in ((mine, a, cr.tensor), (theirs, b, torch.tensor)):
            model.zero_grad()
            (y * to(numbers(*y.shape, seed=3))).sum().backward()
        gradients_agree(mine, theirs)


# --- Weights made of others ----------------------------------------------------------------------


NORMS: dict[str, tuple[Any, Any, Any]] = {
    "weight": (nn.weight_norm, torch.nn.utils.parametrizations.weight_norm, {}),
    "weight, all": (nn.weight_norm, torch.nn.utils.parametrizations.weight_norm, {"dim": None}),
    "spectral": (nn.spectral_norm, torch.nn.utils.parametrizations.spectral_norm, {}),
    "spectral, twice": (
        nn.spectral_norm, torch.nn.utils.parametrizations.spectral_norm, {"n_power_iterations": 2},
    ),
}  # fmt: skip
NORMED = {
    "linear": (lambda lib, **d: lib.Linear(3, 4, **d), (5, 3)),
    "conv": (lambda lib, **d: lib.Conv2d(2, 4, 3, **d), (2, 2, 5, 5)),
    "transposed": (lambda lib, **d: lib.ConvTranspose1d(2, 4, 3, **d), (2, 2, 5)),
}


@sampled(one_in=3)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("layer", NORMED)
@pytest.mark.parametrize("name", NORMS)
def test_norms_of_weights_are_pytorchs(name: str, layer: str, compiled: bool):
    ours, other, settings = NORMS[name]
    make, shape = NORMED[layer]
    mine = ours(make(nn, dtype=np.float64), **settings)
    theirs = other(make(torch.nn), **settings)
    twins(mine, theirs)
    x = numbers(*shape)

    def step(model: Any, x: Any) -> Any:
        model.zero_grad()
        y = model(x)
        y.sum().backward()
        return y

    run = cr.jit(lambda x: step(mine, x)) if compiled else lambda x: step(mine, x)
    for training in (True, True, False):
        mine.train(training)
        theirs.train(training)
        same(run(cr.tensor(x)), step(theirs, torch.tensor(x)))
        gradients_agree(mine, theirs)
        for key, t in mine.named_buffers():
            same(t, theirs.state_dict()[key])
    assert isinstance(mine, type(make(nn)))


# --- A model by layers ---------------------------------------------------------------------------


def test_a_summary_counts_operations_and_bytes():
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Sequential(nn.Linear(4 * 36, 10))
    )
    found = net.summary(cr.zeros((5, 1, 8, 8)))
    layers = {layer.name: layer for layer in found.layers}
    assert layers[""].parameters == 40 + 1450 and layers["0"].parameters == 40
    assert layers["0"].shapes == "(5, 4, 6, 6)" and layers["3"].shapes == "(5, 10)"
    conv, linear = 2 * 9 * 5 * 4 * 36, 2 * 144 * 50
    assert layers["0"].operations == conv + 5 * 4 * 36  # and the bias
    assert linear <= layers["3"].operations <= linear + 100
    assert layers[""].operations == sum([layers[n].operations for n in "0123"])
    assert layers[""].saved_bytes == sum([layers[n].saved_bytes for n in "0123"])
    assert layers[""].saved_bytes > 4 * 5 * 4 * 36
    lines = str(found).splitlines()
    assert lines[0].split() == ["layer", "result", "parameters", "operations", "bytes"]
    assert lines[1].startswith("Sequential") and lines[-1].startswith("    0: Linear")


# --- Containers ----------------------------------------------------------------------------------


def test_lists_and_dicts_have_pytorchs_names():
    def build(lib: Any, module: Any, list_: Any, parameter: Callable[[], Any]) -> Any:
        class Net(module):
            def __init__(self) -> None:
                super().__init__()
                self.blocks = lib.ModuleList([lib.Linear(2, 2), lib.Linear(2, 3)])
                self.by_name = lib.ModuleDict({"a": lib.Linear(2, 1), "b": lib.ReLU()})
                self.scales = lib.ParameterList([parameter(), parameter()])
                self.blocks.append(lib.Linear(3, 1))
                self.blocks.insert(0, lib.Linear(4, 2))
                del self.blocks[1]

            def forward(self, x: Any) -> Any:
                return x

        return Net()

    mine = build(nn, nn.Module, list, lambda: cr.zeros(2, requires_grad=True))
    theirs = build(torch.nn, torch.nn.Module, list, lambda: torch.nn.Parameter(torch.zeros(2)))
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert [tuple(t.shape) for t in mine.state_dict().values()] == [
        tuple(t.shape) for t in theirs.state_dict().values()
    ]
    assert len(mine.blocks[1:]) == 2 and list(mine.by_name) == ["a", "b"]
    assert "a" in mine.by_name and isinstance(mine.by_name["b"], nn.ReLU)
    twin = copy.deepcopy(mine)
    assert list(twin.state_dict()) == list(mine.state_dict())
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.Tanh()}).append(nn.Linear(3, 1))
    assert list(net.state_dict()) == ["first.weight", "first.bias", "2.weight", "2.bias"]
    assert net[:2](cr.ones(2)).shape == (3,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: 2 groups do not divide 3 and 4"),
        (lambda: nn.Conv2d(3, 4, (3, 3, 3)), "Conv2d: kernel_size is an integer >= 1, or 2"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="same"), "Conv2d: padding_mode"),
        (lambda: nn.Conv2d(3, 4, 3)(cr.ones((3, 4))), r"Conv2d: x is \(N, C, H, W\)"),
        (lambda: nn.ConvTranspose1d(1, 1, 3, 2)(cr.ones((1, 1, 4)), 20), "not between"),
        (lambda: nn.MaxPool2d(0), "MaxPool2d: kernel_size"),
        (lambda: nn.FractionalMaxPool2d(2), "FractionalMaxPool2d: give one of output_size and"),
        (
            lambda: nn.FractionalMaxPool2d(2, 4)(cr.ones((1, 3, 4, 9))),
            r"fractional_max_pool2d: \(4, 4\) windows of \(2, 2\) do not fit into \(4, 9\)",
        ),
        (
            lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5)(cr.ones((1, 3, 4, 9))),
            "output_ratio is a number between 0 and 1, or 2 of them, not 1.5",
        ),
        (
            lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 11, [5, 3]),
            "AdaptiveLogSoftmaxWithLoss: cutoffs are integers from 1 to 10, each larger",
        ),
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 11, [3, 5, 9]), "rank is a positive integer"),
        (lambda: nn.Dropout2d(0.5)(cr.ones((3, 4))), r"dropout2d: x is \(N, C, H, W\) or"),
        (
            lambda: nn.functional.adaptive_avg_pool2d(cr.ones((2, 3, 4)), 2),
            r"adaptive_avg_pool2d: x is \(N, C, H, W\), not \(2, 3, 4\)",
        ),
        (lambda: nn.BatchNorm2d(3)(cr.ones((2, 3))), "BatchNorm2d: x has 4 axes"),
        (lambda: nn.GroupNorm(2, 3), "GroupNorm: 2 groups do not divide 3"),
        (lambda: nn.LSTM(3, 4, proj_size=4), "LSTM: proj_size is smaller"),
        (lambda: nn.LSTM(3, 4)(cr.ones((5, 2, 2))), "LSTM: x has 3 axes"),
        (lambda: nn.GRU(3, 4)(cr.ones((5, 2, 3)), cr.ones((1, 4))), "GRU: a state is"),
        (lambda: nn.GRU(3, 4)(cr.ones((5, 2, 3)), None, cr.ones(2)), "GRU: lengths are 2 integers"),
        (lambda: nn.MultiheadAttention(5, 2), "2 heads do not divide 5"),
        (lambda: nn.RotaryEmbedding(5), "RotaryEmbedding: dim is even"),
        (lambda: nn.Embedding(5, 2, 7), "Embedding: padding_idx 7 is no row of 5"),
        (lambda: nn.EmbeddingBag(5, 2, mode="min"), "EmbeddingBag: mode"),
        (lambda: nn.ModuleList([3]), "ModuleList: its members are Modules, not 3"),
        (lambda: nn.ModuleDict({"keys": nn.ReLU()}), "'keys' cannot be a name"),
        (lambda: nn.ModuleList([])(3), "ModuleList is not called"),
        (lambda: nn.ModuleDict({"a": nn.ReLU()})["b"], "no 'b' among"),
        (lambda: nn.Flatten(2, 1)(cr.ones((2, 3, 4))), "Flatten"),
        (lambda: nn.Unflatten(1, (2, 2))(cr.ones((2, 3))), "Unflatten"),
        (lambda: nn.Softplus(beta=0.0), "Softplus: beta"),
        (lambda: nn.MSELoss(reduction="average"), "MSELoss: reduction is 'mean', 'sum' or 'none'"),
        (lambda: nn.LayerNorm((3, 4))(cr.ones((2, 4))), r"LayerNorm: .* are \(3, 4\)"),
        (lambda: nn.weight_norm(nn.ReLU()), "weight_norm: ReLU has no parameter 'weight'"),
        (lambda: nn.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "n_power_iterations"),
        (lambda: nn.ReLU(inplace=True), "ReLU has no argument 'inplace': nothing is changed"),
    ],
)
def test_mistakes(make: Callable[[], Any], words: str):
    with pytest.raises(cr.ChainruleError, match=words):
        make()


# --- What PyTorch's own samples cannot be compared with ------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("flat", [False, True])
def test_a_loss_of_paths_is_pytorchs(flat: bool, compiled: bool):
    """Of normalised numbers: for others PyTorch's gradient is that of the softmax besides."""
    z, steps, counts = numbers(9, 3, 5), np.array([9, 7, 5]), np.array([3, 0, 2])
    rows = np.array([[2, 2, 1], [4, 4, 4], [3, 1, 2]])
    labels = np.concatenate([r[:n] for r, n in zip(rows, counts, strict=True)]) if flat else rows
    settings: dict[str, Any] = {"reduction": "none" if flat else "mean", "zero_infinity": flat}
    mine, theirs = nn.CTCLoss(**settings), torch.nn.CTCLoss(**settings)
    x, y = cr.tensor(z, requires_grad=True), torch.tensor(z, requires_grad=True)

    def loss(x: Any, *rest: Any) -> Any:
        return mine(cr.log_softmax(x), *rest).sum()

    rest = (labels, steps, counts)
    got = (cr.jit(loss) if compiled else loss)(x, *map(cr.tensor, rest))
    want = theirs(y.log_softmax(-1), *map(torch.tensor, rest)).sum()
    same(got, want)
    got.backward()
    want.backward()
    same(x.grad, y.grad)


def test_too_few_steps_cost_infinity():
    args = (np.array([[1, 1]]), np.array([2]), np.array([2]))
    x = cr.tensor(numbers(2, 1, 3), requires_grad=True)
    assert nn.functional.ctc_loss(x, *args, reduction="sum").item() == np.inf
    nn.functional.ctc_loss(x, *args, zero_infinity=True).backward()
    assert x.grad is not None and (x.grad == 0).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools_of_powers_are_pytorchs(n: int):
    """PyTorch's own samples have powers that are no numbers."""
    x = np.abs(numbers(2, 3, *(7, 6, 5)[:n]))
    for settings in ({"stride": 2}, {"stride": 1, "ceil_mode": True}):
        mine, theirs = [getattr(lib, f"LPPool{n}d")(1.5, 3, **settings) for lib in (nn, torch.nn)]
        a, b = cr.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        got, want = mine(a), theirs(b)
        same(got, want)
        (got * got).sum().backward()
        (want * want).sum().backward()
        same(a.grad, b.grad)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_maxima_go_back_to_where_they_were(n: int):
    x = numbers(2, 3, *(8, 6, 4)[:n])
    for settings in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 4, "padding": 1}):
        found: list[Any] = []
        for lib, to in ((nn, cr.tensor), (torch.nn, torch.tensor)):
            t = to(x, requires_grad=True)
            y, at = getattr(lib, f"MaxPool{n}d")(**settings, return_indices=True)(t)
            back = getattr(lib, f"MaxUnpool{n}d")(**settings)(y * y, at, output_size=x.shape)
            (back * back).sum().backward()
            found += [(at, back, t.grad)]
        for mine, theirs in zip(*found, strict=True):
            same(mine, theirs)


@sampled("n", "compiled")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("windows", [{"output_size": 3}, {"output_ratio": 0.6}])
@pytest.mark.parametrize("n", [2, 3])
def test_windows_at_random_places_are_pytorchs(n: int, windows: dict[str, Any], compiled: bool):
    x = numbers(2, 3, *(7, 8, 6)[:n])
    places = np.random.default_rng(1).uniform(size=(2, 3, n))
    found: list[Any] = []
    for lib, to in ((nn, cr.tensor), (torch.nn, torch.tensor)):
        t = to(x, requires_grad=True)
        kind = getattr(lib, f"FractionalMaxPool{n}d")
        layer = kind(2, **windows, return_indices=True, _random_samples=to(places))
        y, at = (cr.jit(layer) if compiled and lib is nn else layer)(t)
        (y * y).sum().backward()
        found += [(y, at, t.grad)]
    for mine, theirs in zip(*found, strict=True):
        same(mine, theirs)
    drawn = getattr(nn, f"FractionalMaxPool{n}d")(2, **windows, generator=cr.Generator(0))
    draws = [drawn(cr.tensor(x)) for _ in range(2)]
    assert draws[0].shape == found[0][0].shape and (draws[0] != draws[1]).any()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("lead", [(), (5,)])
def test_a_softmax_of_many_classes_is_pytorchs(lead: tuple[int, ...], compiled: bool):
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 11, [3, 5, 9], 2.0, head_bias=True)
    mine = nn.AdaptiveLogSoftmaxWithLoss(8, 11, [3, 5, 9], 2.0, head_bias=True, dtype=np.float64)
    twins(mine, theirs)
    x, target = numbers(*lead, 8), np.array([9, 0, 4, 10, 2] if lead else 6)
    got = (cr.jit(mine) if compiled else mine)(cr.tensor(x), cr.tensor(target))
    want = theirs(torch.tensor(x), torch.tensor(target))
    same(got.output, want.output)
    same(got.loss, want.loss)
    got.loss.backward()
    want.loss.backward()
    other = dict(theirs.named_parameters())
    for name, p in mine.named_parameters():
        assert p.grad is not None
        want_grad = other[name].grad  # None where no target is in a part
        same(p.grad, torch.zeros_like(other[name]) if want_grad is None else want_grad)
    rows = x.reshape(-1, 8)
    same(mine.log_prob(cr.tensor(rows)), theirs.log_prob(torch.tensor(rows)))
    same(mine.predict(cr.tensor(rows)), theirs.predict(torch.tensor(rows)))


def test_what_is_drawn_has_the_right_moments():
    cr.manual_seed(0)
    x = cr.Generator(1).normal((400, 200))
    y = nn.AlphaDropout(0.3)(x)
    assert abs(y.mean().item()) < 0.02 and abs(y.std().item() - 1) < 0.02
    channels = nn.FeatureAlphaDropout(0.5)(cr.ones((200, 30, 4)))
    assert (channels == channels[:, :, :1]).all() and 0.4 < (channels > 0).mean().item() < 0.6
    for n in (1, 2, 3):
        for lead in ((200, 30), (6000,)):
            dropped = getattr(nn, f"Dropout{n}d")(0.25)(cr.ones((*lead, *[2] * n)))
            flat = dropped.reshape(*lead, -1)
            assert (flat == flat[..., :1]).all() and abs(flat.mean().item() - 1) < 0.05
            assert set(np.unique(flat.numpy())) == {0, np.float32(1 / 0.75)}
    slopes = nn.RReLU(0.2, 0.6)(-cr.ones((300, 100)))
    assert slopes.min().item() >= -0.6 and slopes.max().item() <= -0.2
    assert slopes.mean().item() == pytest.approx(-0.4, abs=0.01)
    assert nn.RReLU(0.2, 0.6).eval()(-cr.ones(2)).tolist() == pytest.approx([-0.4, -0.4])
    for layer in (nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)):
        assert (layer.eval()(x) == x).all()


@pytest.mark.parametrize("hard", [False, True])
def test_a_choice_that_can_be_differentiated(hard: bool):
    p = np.array([0.1, 0.6, 0.3])
    logits = cr.tensor(np.log(p) * np.ones((20000, 1)), requires_grad=True)
    y = nn.functional.gumbel_softmax(logits, 0.5, hard, generator=cr.Generator(3))
    np.testing.assert_allclose(y.detach().numpy().sum(1), 1, rtol=1e-12)
    shares = np.bincount(y.detach().numpy().argmax(1), minlength=3) / len(y)
    np.testing.assert_allclose(shares, p, atol=0.01)
    (y * np.array([1.0, 2.0, 3.0])).sum().backward()
    assert logits.grad is not None and (logits.grad != 0).any()
    assert not hard or set(np.unique(np.rint(y.detach().numpy() * 1e9) / 1e9)) == {0.0, 1.0}


def test_a_mask_hides_what_comes_later():
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    want = torch.nn.Transformer.generate_square_subsequent_mask(3)
    np.testing.assert_array_equal(mask.numpy(), want.numpy())
