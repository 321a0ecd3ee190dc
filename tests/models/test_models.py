"""Models: microgpt's published losses, GPT on tensors and on scalars, the MLP cases."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn, optim
from chainrule.models.gpt import (
    GPT,
    GPTConfig,
    generator_draw,
    parameter_shapes,
    python_draw,
    sample,
)
from chainrule.models.mlp import MLP
from chainrule.models.scalar_gpt import ScalarGPT


def _shared(name: str) -> Path:
    """A file of the data folder that lies beside the repository, if it does."""
    for folder in Path(__file__).resolve().parents:
        path = folder / "shared" / "data" / name
        if path.is_file():
            return path
    pytest.skip(f"shared/data/{name} is not beside the repository")


# --- Configurations ------------------------------------------------------------------------------


def test_microgpt_has_its_number_of_parameters() -> None:
    sizes = {8: 4064, 16: 4192}
    for block_size, count in sizes.items():
        model = GPT(GPTConfig.microgpt(27, block_size), draw=python_draw(random.Random(0)))
        assert model.num_parameters() == count
        assert all(p.dtype == np.float32 for p in model.parameters())


def _shape_only(shape: tuple[int, ...], std: float) -> Any:
    return np.broadcast_to(np.float32(std), shape)


def test_gpt2_style_has_gpt2s_number_of_parameters() -> None:
    # of one layer and few tokens, and from there to twelve and all: V C + T C + 12 block + 2 C
    C, T = 768, 1024
    model = GPT(GPTConfig.gpt2(10, n_layer=1), draw=_shape_only)
    block = model.num_parameters() - 10 * C - T * C - 2 * C
    assert 50257 * C + T * C + 12 * block + 2 * C == 124_439_808


def test_config_is_a_value() -> None:
    config = GPTConfig.gpt2(50, 12, n_layer=2, n_head=2, n_embd=8)
    text = json.dumps(config.to_dict())
    assert GPTConfig.from_dict(json.loads(text)) == config
    assert hash(GPTConfig.from_dict(json.loads(text))) == hash(config)
    assert GPTConfig.microgpt(27) != config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_head": 3}, "n_head=3 does not divide n_embd=16"),
        ({"n_layer": 0}, "n_layer is a positive integer, not 0"),
        ({"n_embd": -16}, "n_embd is a positive integer"),
        ({"mlp_ratio": 2.5}, "mlp_ratio is a positive integer"),
        ({"norm": "batch"}, "norm is one of"),
        ({"activation": "swish"}, "activation is one of"),
        ({"dropout": 1.0}, "dropout"),
        ({"init_std": math.nan}, "init_std is a number that is not negative, not nan"),
        ({"norm_eps": -1e-5}, "norm_eps"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(cr.ConfigError, match=words) as caught:
        GPTConfig.microgpt(27, **changes)
    assert "\n" not in str(caught.value)


def test_settings_of_another_kind_are_named() -> None:
    with pytest.raises(cr.ConfigError, match="unknown: heads"):
        GPTConfig.from_dict({"vocab_size": 3, "block_size": 4, "heads": 2})
    with pytest.raises(cr.ConfigError, match="missing: block_size"):
        GPTConfig.from_dict({"vocab_size": 3})


# --- Initial weights -----------------------------------------------------------------------------


def test_weights_are_drawn_in_the_documented_order() -> None:
    model = GPT(GPTConfig.microgpt(5, 3), draw=python_draw(random.Random(7)), dtype=np.float64)
    rng = random.Random(7)
    sizes = [("wte.weight", 5, 16), ("wpe.weight", 3, 16), ("lm_head.weight", 5, 16)]
    sizes += [("blocks.0.attn.qkv.weight", 48, 16), ("blocks.0.attn.proj.weight", 16, 16)]
    sizes += [("blocks.0.mlp.fc1.weight", 64, 16), ("blocks.0.mlp.fc2.weight", 16, 64)]
    state = model.state_dict()
    assert list(state) == [name for name, _, _ in sizes]
    for name, rows, columns in sizes:
        expected = [[rng.gauss(0, 0.08) for _ in range(columns)] for _ in range(rows)]
        assert state[name].tolist() == expected


def test_gpt2_starts_as_gpt2_does() -> None:
    config = GPTConfig.gpt2(100, 50, n_layer=8, n_head=2, n_embd=64)
    model = GPT(config, draw=generator_draw(cr.Generator(0)))
    assert "lm_head.weight" not in model.state_dict()
    for name, t in model.state_dict().items():
        values = t.numpy()
        if name.endswith("bias"):
            assert (values == 0).all()
        elif "norm" in name:
            assert (values == 1).all()
        else:
            branch = name.endswith(("proj.weight", "fc2.weight"))
            assert values.std() == pytest.approx(0.02 / 4 if branch else 0.02, rel=0.05)


def test_building_a_model_takes_nothing_from_the_default_generator() -> None:
    from chainrule.random import default_generator

    before = default_generator.state
    GPT(GPTConfig.gpt2(9, 4, n_layer=1, n_head=1, n_embd=4), draw=python_draw(random.Random(0)))
    assert default_generator.state == before


# --- The model -----------------------------------------------------------------------------------

SMALL = {
    "microgpt": GPTConfig.microgpt(11, 6),
    "rms, weights": GPTConfig(11, 6, n_layer=2, n_embd=8, norm_affine=True, final_norm=True),
    "gpt2": GPTConfig.gpt2(11, 6, n_layer=2, n_head=2, n_embd=6),
    "layer, plain": GPTConfig(11, 6, n_head=2, n_embd=6, norm="layer", activation="gelu"),
    "mixed": GPTConfig.gpt2(11, 6, n_layer=1, n_head=3, n_embd=6, bias=False, tied=False),
    "biases": GPTConfig(11, 6, n_head=1, n_embd=4, bias=True, tied=True, mlp_ratio=2),
}
TOKENS = [3, 1, 4, 1, 5, 9, 2]


def _model(config: GPTConfig, seed: int = 3) -> GPT:
    """A model away from its start, where biases are not 0 and norms not 1."""
    model = GPT(config, draw=python_draw(random.Random(seed)), dtype=np.float64)
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data = p.detach().numpy() + rng.normal(0, 0.3, p.shape)
    return model


@pytest.mark.parametrize("name", SMALL)
def test_one_backward_fills_every_gradient(name: str) -> None:
    model = _model(SMALL[name])
    model.loss(np.array(TOKENS[:-1]), np.array(TOKENS[1:])).backward()
    for key, p in model.named_parameters():
        assert p.grad is not None, key
        assert (p.grad != 0).any(), key


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_is_its_sequences(name: str) -> None:
    model = _model(SMALL[name])
    tokens = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    batch = model(cr.tensor(tokens)).detach().numpy()
    assert batch.shape == (2, 5, 11)
    for row, sequence in zip(batch, tokens, strict=True):
        np.testing.assert_allclose(model(sequence).detach().numpy(), row, rtol=1e-11, atol=1e-12)


def test_lists_are_tokens_too() -> None:
    model = _model(SMALL["microgpt"])
    tokens, targets = TOKENS[:-1], TOKENS[1:]
    assert model.loss(tokens, targets) == model.loss(np.array(tokens), cr.tensor(targets))


def test_tokens_that_the_model_does_not_know() -> None:
    model = _model(SMALL["microgpt"])
    with pytest.raises(cr.IndexingError, match="11"):
        model(np.array([1, 11]))
    with pytest.raises(cr.DtypeError, match="integers"):
        model(np.array([1.0, 2.0]))


def test_later_tokens_do_not_change_earlier_logits() -> None:
    model = _model(SMALL["gpt2"])
    a = model(np.array([1, 2, 3, 4, 5])).detach().numpy()
    b = model(np.array([1, 2, 3, 9, 9])).detach().numpy()
    np.testing.assert_allclose(a[:3], b[:3], rtol=1e-13)
    assert (a[3:] != b[3:]).any(axis=1).all()


def test_ignored_positions_do_not_count() -> None:
    model = _model(SMALL["microgpt"])
    tokens, targets = (
        np.array([[1, 2, 3, 4], [5, 6, 0, 0]]),
        np.array([[2, 3, 4, 5], [6, 7, -1, -1]]),
    )
    whole = model.loss(tokens, targets, ignore_index=-1).item()
    parts = [
        model.loss(tokens[0], targets[0]).item() * 4,
        model.loss(tokens[1, :2], targets[1, :2]).item() * 2,
    ]
    assert whole == pytest.approx(sum(parts) / 6, rel=1e-13)


def test_gradients_are_the_slopes() -> None:
    model = _model(SMALL["gpt2"])
    tokens, targets = np.array(TOKENS[:-1]), np.array(TOKENS[1:])
    model.loss(tokens, targets).backward()
    rng = np.random.default_rng(8)
    for name, p in model.named_parameters():
        assert p.grad is not None
        direction, start, h = rng.normal(size=p.shape), p.detach().numpy(), 1e-5
        ends = []
        for side in (h, -h):
            p.data = start + side * direction
            ends.append(model.loss(tokens, targets).item())
        p.data = start
        slope = (ends[0] - ends[1]) / (2 * h)
        assert (p.grad.numpy() * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-9), name


def test_too_many_tokens() -> None:
    model = _model(SMALL["microgpt"])
    with pytest.raises(cr.ShapeError, match="7 tokens are more than the model's 6 positions"):
        model(np.array(TOKENS))


def test_dropout_only_in_training() -> None:
    config = GPTConfig.gpt2(11, 6, n_layer=1, n_head=2, n_embd=8, dropout=0.5)
    model = GPT(config, draw=python_draw(random.Random(0)))
    tokens = np.array(TOKENS[:-1])
    assert (model(tokens) != model(tokens)).any()
    model.eval()
    assert (model(tokens) == model(tokens)).all()


def test_a_state_moves_to_another_model_and_names_what_does_not_fit() -> None:
    a, b = _model(SMALL["gpt2"], 1), _model(SMALL["gpt2"], 2)
    tokens = np.array(TOKENS[:-1])
    assert (a(tokens) != b(tokens)).any()
    b.load_state_dict(a.state_dict())
    assert (a(tokens) == b(tokens)).all()
    with pytest.raises(cr.ConfigError, match=r"missing: lm_head\.weight"):
        _model(SMALL["microgpt"]).load_state_dict(a.state_dict())


# --- Drawing from it -----------------------------------------------------------------------------


def test_sampling_is_random_choices_over_the_softmax() -> None:
    model = _model(SMALL["microgpt"])
    new = sample(
        model.next_logits, random.Random(5), start=[2], stop=None, limit=20, temperature=0.8
    )
    rng, tokens = random.Random(5), [2]
    while len(tokens) < 21:
        logits = model(np.array(tokens[-6:])).detach().numpy()[-1] / 0.8
        weights = np.exp(logits) / np.exp(logits).sum()
        (token,) = rng.choices(range(11), weights=weights.tolist())
        tokens.append(token)
    assert new == tokens[1:]
    stop = new[9]
    cut = sample(
        model.next_logits, random.Random(5), start=[2], stop=stop, limit=20, temperature=0.8
    )
    assert cut == new[: new.index(stop)]


def test_temperature_zero_takes_the_most_probable() -> None:
    logits = [0.1, 3.0, -1.0, 2.9]
    for stop, expected in ((None, [1, 1, 1]), (1, [])):
        new = sample(
            lambda _: logits, random.Random(), start=[0], stop=stop, limit=3, temperature=0
        )
        assert new == expected


def test_bad_sampling() -> None:
    with pytest.raises(cr.ConfigError, match="temperature"):
        sample(lambda _: [1.0], random.Random(), start=[0], stop=None, limit=1, temperature=-1)
    with pytest.raises(cr.ConfigError, match="at least one token"):
        sample(lambda _: [1.0], random.Random(), start=[], stop=None, limit=1)


# --- microgpt's published run --------------------------------------------------------------------


def _reference() -> tuple[dict[str, Any], list[list[int]], random.Random]:
    """The published figures, the shuffled documents as tokens, the state of the random numbers."""
    reference = json.loads(_shared("microgpt_reference.json").read_text(encoding="utf-8"))
    lines = _shared("names.txt").read_text(encoding="utf-8").splitlines()
    docs = [line.strip() for line in lines if line.strip()]
    rng = random.Random(42)
    rng.shuffle(docs)
    chars = sorted(set("".join(docs)))
    bos = len(chars)
    return reference, [[bos, *map(chars.index, doc), bos] for doc in docs], rng


def _losses(model: GPT, docs: list[list[int]], dtype: Any) -> Iterator[float]:
    optimizer = optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99), eps=1e-8)
    scheduler = optim.Scheduler(optimizer, optim.Linear(1000))
    for doc in docs:
        n = min(model.config.block_size, len(doc) - 1)
        loss = model.loss(np.array(doc[:n]), np.array(doc[1 : n + 1]))
        assert loss.dtype == dtype
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        yield loss.item()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_first_losses_are_those_of_microgpt(dtype: Any) -> None:
    reference, docs, rng = _reference()
    model = GPT(GPTConfig.microgpt(27), draw=python_draw(rng), dtype=dtype)
    got = list(_losses(model, docs[:50], dtype))
    np.testing.assert_allclose(got, reference["losses"][:50], atol=1e-4)


def test_the_scalar_model_has_the_same_first_losses() -> None:
    reference, docs, rng = _reference()
    model = ScalarGPT(GPTConfig.microgpt(27), python_draw(rng))
    optimizer = optim.Adam(model.tensors, lr=0.01, betas=(0.85, 0.99), eps=1e-8)
    for step in range(3):
        loss = model.loss(docs[step])
        assert loss.data == pytest.approx(reference["losses"][step], abs=1e-4)
        loss.backward()
        model.to_tensors()
        optimizer.step()
        model.from_tensors()


# --- The same model on scalars -------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_scalars_and_tensors_agree(name: str) -> None:
    model = _model(SMALL[name])
    scalars = ScalarGPT(SMALL[name], python_draw(random.Random(0)))
    scalars.load_state_dict(model.state_dict())
    assert scalars.num_parameters() == model.num_parameters()
    loss, other = model.loss(np.array(TOKENS[:-1]), np.array(TOKENS[1:])), scalars.loss(TOKENS)
    assert other.data == pytest.approx(loss.item(), rel=1e-12)
    loss.backward()
    other.backward()
    scalars.to_tensors()
    for p, q in zip(model.parameters(), scalars.tensors, strict=True):
        assert p.grad is not None
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-10, atol=1e-10)
    flat = np.concatenate(
        [p.grad.numpy().ravel() for p in model.parameters() if p.grad is not None]
    )
    np.testing.assert_allclose([v.grad for v in scalars.parameters()], flat, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        scalars.next_logits(TOKENS), model.next_logits(TOKENS), rtol=1e-12, atol=1e-13
    )


def test_scalar_states_are_tensor_states() -> None:
    config = SMALL["gpt2"]
    scalars = ScalarGPT(config, python_draw(random.Random(4)))
    model = GPT(config, draw=python_draw(random.Random(4)), dtype=np.float64)
    state = scalars.state_dict()
    assert list(state) == list(model.state_dict())
    for name, t in model.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), t.numpy())


def test_scalars_have_no_dropout() -> None:
    config = GPTConfig.microgpt(5, dropout=0.1)
    with pytest.raises(cr.ConfigError, match="no dropout"):
        ScalarGPT(config, python_draw(random.Random(0)))


# --- MLP -----------------------------------------------------------------------------------------


def _by_hand(x: Any, labels: Any, w: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Loss and gradients of a 3-layer MLP with sigmoids, softmax and cross-entropy, in NumPy."""
    n = len(x)
    h1 = 1 / (1 + np.exp(-(x @ w["W1"] + w["b1"])))
    h2 = 1 / (1 + np.exp(-(h1 @ w["W2"] + w["b2"])))
    z = h2 @ w["W3"] + w["b3"]
    e = np.exp(z - z.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(n), labels]).mean()
    dz = (p - np.eye(3)[labels]) / n
    d2 = dz @ w["W3"].T * h2 * (1 - h2)
    d1 = d2 @ w["W2"].T * h1 * (1 - h1)
    grads = {"W1": x.T @ d1, "W2": h1.T @ d2, "W3": h2.T @ dz}
    grads |= {"b1": d1.sum(axis=0), "b2": d2.sum(axis=0), "b3": dz.sum(axis=0)}
    return float(loss), grads


def test_mlp_trained_by_hand_and_by_autograd() -> None:
    """Case L3: 4-32-16-3, 200 rows, SGD 0.1, 200 epochs: gradients equal to 1e-12 at every step."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
    x[np.arange(200), labels] += 1.5
    model = MLP([4, 32, 16, 3], "sigmoid", dtype=np.float64, generator=cr.Generator(1))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    names = [name for i in (1, 2, 3) for name in (f"W{i}", f"b{i}")]
    hand = {
        name: p.detach().numpy().T.copy() for name, p in zip(names, model.parameters(), strict=True)
    }
    losses: list[float] = []
    for _ in range(200):
        loss = cr.cross_entropy(model(cr.tensor(x)), labels)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        expected, grads = _by_hand(x, labels, hand)
        assert losses[-1] == pytest.approx(expected, rel=1e-12)
        for name, p in zip(names, model.parameters(), strict=True):
            assert p.grad is not None
            np.testing.assert_allclose(p.grad.numpy().T, grads[name], rtol=0, atol=1e-12)
            hand[name] = hand[name] - 0.1 * grads[name]
        optimizer.step()
    assert losses[-1] < losses[0] - 0.05
    assert all(b < a for a, b in pairwise(losses))


class _Residual(nn.Module):
    """x + relu(w x + b)."""

    def __init__(self, size: int, generator: cr.Generator) -> None:
        self.linear = nn.Linear(size, size, dtype=np.float64, generator=generator)
        nn.init.kaiming_normal_(self.linear.weight, nonlinearity="relu", generator=generator)

    def forward(self, x: Any) -> Any:
        return x + cr.relu(self.linear(x)) * 0.3


def _flow(layers: list[nn.Module], x: cr.Tensor) -> list[float]:
    """The size (root mean square) of the gradient at the input of each layer, and at the output."""
    points = [x]
    for layer in layers:
        points.append(layer(points[-1]))
        points[-1].retain_grad()
    points[-1].sum().backward()
    sizes: list[float] = []
    for point in points:
        assert point.grad is not None
        sizes.append(float(np.sqrt((point.grad.numpy() ** 2).mean())))
    return sizes


def test_gradients_vanish_through_sigmoids_and_not_through_residuals() -> None:
    """Case L5: ten sigmoids shrink the gradient by at most 0.25 each, (1/4)^10 < 1e-6 in all."""
    x = cr.tensor(np.random.default_rng(1).normal(size=(8, 32)), requires_grad=True)
    sizes = _flow([nn.Sigmoid() for _ in range(10)], x)
    shrink = [a / b for a, b in pairwise(sizes)]
    assert all(0.05 < s <= 0.25 for s in shrink)
    assert sizes[0] / sizes[-1] < 1e-6

    generator = cr.Generator(2)
    x.grad = None
    sizes = _flow([_Residual(32, generator) for _ in range(10)], x)
    assert 1 < sizes[0] / sizes[-1] < 100


def test_mlp_settings() -> None:
    assert MLP([3, 5, 2]).num_parameters() == 3 * 5 + 5 + 5 * 2 + 2
    with pytest.raises(cr.ConfigError, match="at least 2"):
        MLP([3])
    with pytest.raises(cr.ConfigError, match="activation is one of"):
        MLP([3, 2], "sin")


@pytest.mark.parametrize("style", [GPTConfig.microgpt, GPTConfig.gpt2])
@pytest.mark.parametrize("changes", [{}, {"norm_affine": True}, {"bias": True}, {"tied": True}])
def test_shapes_of_parameters_are_known_without_a_model(style: Any, changes: Any):
    config = style(11, 7, n_layer=2, n_head=2, n_embd=6, **changes)
    model = GPT(config, draw=lambda shape, std: np.zeros(shape))
    shapes = {name: p.shape for name, p in model.named_parameters()}
    assert dict(parameter_shapes(config)) == shapes
