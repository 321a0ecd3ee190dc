"""`GPT.generate`: its tokens are those of `sample`, which computes each from the beginning, and the
generator is left where `sample` leaves it, compiled and op by op."""

from __future__ import annotations

import copy
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import NonFiniteError
from chainrule.models import generation
from chainrule.models.gpt import GPT, GPTConfig, python_draw, sample
from tests.models.test_models import SMALL
from tests.sampling import sampled

V, BLOCK = 11, 6
PROMPTS = [[2], [3, 1, 4], [1, 5, 9, 2, 6, 5, 3, 5], [9, 9, 9, 9, 9, 9], [8]]
"""Of different lengths, also of the block size and longer."""
NEW, STOP = 7, 10


def model_of(config: GPTConfig, dtype: Any = np.float64, seed: int = 3) -> GPT:
    """A model away from its start, with biases that are not 0 and norms that are not 1."""
    model = GPT(config, draw=python_draw(random.Random(seed)), dtype=dtype)
    rng = np.random.default_rng(seed)
    for p in model.parameters():
        p.data = (p.detach().numpy() + rng.normal(scale=0.2, size=p.shape)).astype(dtype)
    return model


def by_sample(model: GPT, prompts: Any, rng: random.Random, **changes: Any) -> list[list[int]]:
    asked: dict[str, Any] = {"stop": STOP, "limit": NEW, "temperature": 0.9, **changes}
    return [sample(model.next_logits, rng, start=p, **asked) for p in prompts]


def by_generate(model: GPT, prompts: Any, generator: Any, **changes: Any) -> Any:
    asked: dict[str, Any] = {"stop": STOP, "max_new_tokens": NEW, "temperature": 0.9, **changes}
    return model.generate(prompts, generator=generator, **asked)


@pytest.fixture(scope="module")
def model() -> GPT:
    return model_of(SMALL["biases"])


# --- the same tokens -----------------------------------------------------------------------------


def assert_same(model: GPT, compiled: bool) -> None:
    """`generate` gives what `sample` gives, and leaves the generator where it does."""
    ours, theirs = random.Random(5), random.Random(5)
    expected = by_sample(model, PROMPTS, theirs)
    assert any(len(tokens) < NEW for tokens in expected)  # some are stopped
    assert any(len(tokens) == NEW for tokens in expected)  # and some go past the block
    found = by_generate(model, PROMPTS, ours, one_by_one=True, compiled=compiled)
    assert found == expected
    assert ours.getstate() == theirs.getstate()


@pytest.mark.parametrize("name", SMALL)
def test_tokens_and_generator_are_those_of_sample(name: str):
    assert_same(model_of(SMALL[name]), compiled=False)


@sampled("dtype", one_in=4)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SMALL)
def test_compiled_as_well(name: str, dtype: Any):
    assert_same(model_of(SMALL[name], dtype), compiled=True)


@pytest.mark.parametrize("changes", [{"block_size": 1}, {"vocab_size": 1, "n_layer": 2}])
def test_the_smallest_sizes(changes: dict[str, Any]):
    model = model_of(replace(SMALL["microgpt"], **changes))
    prompts = [[0], [0, 0, 0]]
    expected = by_sample(model, prompts, random.Random(1), stop=None)
    for compiled in (False, True):
        found = by_generate(model, prompts, random.Random(1), stop=None, compiled=compiled)
        assert found == expected


@pytest.mark.parametrize("name", ["microgpt", "gpt2", "biases"])
def test_prompts_read_in_one_pass(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(generation, "PREFILL", 0)
    model = model_of(SMALL[name])
    assert_same(model, compiled=False)
    together = by_generate(model, PROMPTS, random.Random(3), compiled=False)
    monkeypatch.undo()
    assert together == by_generate(model, PROMPTS, random.Random(3), compiled=False)
    assert generation._choose_sizes(model, 5, 9, 20).prefill == 0


def test_prompts_read_in_one_pass_compiled(model: GPT, monkeypatch: pytest.MonkeyPatch):
    expected = by_generate(model, PROMPTS, random.Random(3))
    monkeypatch.setattr(generation, "PREFILL", 0)
    assert by_generate(model, PROMPTS * 4, random.Random(3))[: len(PROMPTS)] == expected
    assert {s.prefill for s in model._loops._made} == {0, BLOCK}


def test_a_planted_mistake_is_found(model: GPT, monkeypatch: pytest.MonkeyPatch):
    expected = by_sample(model, PROMPTS, random.Random(5))
    right = model.step

    def wrong(tokens: Any, at: Any, cache: Any) -> Any:
        return right(tokens, cr.minimum(at, 3), cache)  # later positions are taken for the fourth

    monkeypatch.setattr(GPT, "step", staticmethod(wrong))
    found = by_generate(model, PROMPTS, random.Random(5), one_by_one=True, compiled=False)
    assert found != expected


# --- side by side --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [random.Random, cr.Generator])
def test_a_batch_gives_what_its_prompts_give_one_call_after_the_other(model: GPT, make: Any):
    one, many, eager = make(8), make(8), make(8)
    alone = [by_generate(model, p, one) for p in PROMPTS]
    assert by_generate(model, PROMPTS, many) == alone
    assert by_generate(model, PROMPTS, eager, compiled=False) == alone
    assert state_of(one) == state_of(many) == state_of(eager)


def state_of(generator: Any) -> Any:
    return generator.getstate() if isinstance(generator, random.Random) else generator.state


def test_without_a_stop_both_orders_are_one(model: GPT):
    expected = by_sample(model, PROMPTS, random.Random(2), stop=None)
    for one_by_one in (False, True):
        rng = random.Random(2)
        assert by_generate(model, PROMPTS, rng, stop=None, one_by_one=one_by_one) == expected


@pytest.mark.parametrize("one_by_one", [False, True])
def test_more_prompts_than_there_is_room_for(model: GPT, one_by_one: bool):
    prompts = [*PROMPTS * 250]
    ours, theirs = random.Random(4), random.Random(4)
    whole = by_generate(model, prompts, ours, one_by_one=one_by_one)
    parts = [by_generate(model, PROMPTS * 125, theirs, one_by_one=one_by_one) for _ in range(2)]
    assert whole == [row for part in parts for row in part]
    assert ours.getstate() == theirs.getstate()


def test_room_for_positions_grows_with_the_documents():
    model = model_of(GPTConfig.microgpt(V, 150, n_embd=4, n_head=2))
    for length, new in ((3, 5), (60, 6), (120, 9)):  # of 150 positions 64, 128, all
        prompt = random.Random(length).choices(range(V), k=length)
        expected = by_sample(model, [prompt], random.Random(1), stop=None, limit=new)
        asked = {"stop": None, "max_new_tokens": new, "compiled": False}
        assert by_generate(model, [prompt], random.Random(1), **asked) == expected


def test_large_caches_have_fewer_lanes(model: GPT, monkeypatch: pytest.MonkeyPatch):
    expected = by_generate(model, PROMPTS, random.Random(1))
    monkeypatch.setattr(generation, "CACHE", 1)
    assert by_generate(model, PROMPTS, random.Random(1)) == expected


def test_arrays_and_tensors_are_prompts(model: GPT):
    rows = [[1, 2], [3, 4]]
    expected = by_generate(model, rows, random.Random(1), compiled=False)
    array = np.array(rows)
    for prompts in (array, cr.tensor(rows), tuple(map(tuple, rows)), [*array]):
        assert by_generate(model, prompts, random.Random(1), compiled=False) == expected
    first = by_generate(model, np.array(rows[0]), random.Random(1), compiled=False)
    assert first == expected[0] and {type(t) for t in first} == {int}


# --- temperature, generators ---------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True])
def test_temperature_zero_takes_the_first_of_the_most_probable(model: GPT, compiled: bool):
    rng = random.Random(1)
    before = rng.getstate()
    asked = {"temperature": 0, "compiled": compiled}
    expected = by_sample(model, PROMPTS, rng, temperature=0)
    assert by_generate(model, PROMPTS, rng, **asked) == expected
    assert rng.getstate() == before
    flat = model_of(SMALL["microgpt"])
    assert flat.lm_head is not None
    flat.lm_head.weight.data = np.where(np.arange(V) == 4, -1.0, 0.0)[:, None] * np.ones(16)
    flat.final_norm = None
    tied = by_sample(flat, [[4]], rng, temperature=0)
    assert by_generate(flat, [[4]], rng, **asked) == tied


class Halves(random.Random):
    """A generator of the user's."""

    def random(self) -> float:
        return super().random() / 2


def test_generators(model: GPT):
    cr.manual_seed(3)
    default = by_generate(model, PROMPTS, None)
    assert default == by_generate(model, PROMPTS, cr.Generator(3))
    for seed in (0, 1):
        ours, theirs = Halves(seed), Halves(seed)
        expected = by_sample(model, PROMPTS, theirs)
        assert by_generate(model, PROMPTS, ours, one_by_one=True) == expected
        assert ours.getstate() == theirs.getstate()
    system = by_generate(model, PROMPTS, random.SystemRandom(), one_by_one=True)
    assert len(system) == len(PROMPTS)


def test_many_numbers_of_pythons_generator(model: GPT):
    ours, theirs = random.Random(9), random.Random(9)
    for rng in (ours, theirs):
        rng.gauss(0, 1)  # keeps a number for the next call
    found = by_generate(model, [[1]] * 2500, ours, one_by_one=True)
    assert found[:20] == by_sample(model, [[1]] * 20, copy.deepcopy(theirs))
    used = sum([len(t) + (len(t) < NEW) for t in found])
    for _ in range(used):
        theirs.random()
    assert ours.getstate() == theirs.getstate()


# --- the model as it is now ----------------------------------------------------------------------


def test_weights_count_as_they_are(model: GPT):
    model = copy.deepcopy(model)
    first = by_generate(model, PROMPTS, random.Random(1))
    other = model_of(SMALL["biases"], seed=7)
    model.load_state_dict(other.state_dict())
    found = by_generate(model, PROMPTS, random.Random(1))
    assert found == by_generate(other, PROMPTS, random.Random(1), compiled=False) != first


def test_copies_and_pickles_generate_by_themselves(model: GPT):
    expected = by_generate(model, PROMPTS, random.Random(1))
    other = model_of(SMALL["biases"], seed=7).state_dict()
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert by_generate(copied, PROMPTS, random.Random(1)) == expected
        copied.load_state_dict(other)
        assert by_generate(copied, PROMPTS, random.Random(1)) != expected
        assert by_generate(model, PROMPTS, random.Random(1)) == expected
    shallow = copy.copy(model)
    shallow.blocks = []
    assert by_generate(shallow, PROMPTS, random.Random(1)) != expected


def test_dropout_plays_no_part_and_no_mode_changes():
    model = model_of(GPTConfig.gpt2(V, BLOCK, n_layer=1, n_head=2, n_embd=8, dropout=0.5))
    found = by_generate(model, PROMPTS, random.Random(1), one_by_one=True, compiled=False)
    assert model.training
    assert found == by_sample(model.eval(), PROMPTS, random.Random(1))


def test_a_step_gives_the_logits_of_the_whole_sequence(model: GPT):
    tokens = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    cache = model.empty_cache(2, BLOCK)
    for t in range(BLOCK):
        logits, cache = model.step(tokens[:, t], np.array([t, t]), cache)
        whole = model(tokens[:, : t + 1]).detach().numpy()[:, -1]
        np.testing.assert_allclose(logits.detach().numpy(), whole, rtol=1e-12, atol=1e-13)


def test_nothing_to_do(model: GPT):
    rng = random.Random(1)
    before = rng.getstate()
    assert by_generate(model, [1], rng, max_new_tokens=0) == []
    assert by_generate(model, PROMPTS, rng, max_new_tokens=0) == [[]] * len(PROMPTS)
    assert by_generate(model, np.zeros((0, 3), int), rng) == []
    assert rng.getstate() == before


# --- what it refuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"prompts": []}, cr.ConfigError, "prompts is empty"),
        ({"prompts": [[1], []]}, cr.ConfigError, "prompt 1 is empty"),
        ({"prompts": "anna"}, cr.DtypeError, "encode text"),
        ({"prompts": ["anna"]}, cr.DtypeError, "encode text"),
        ({"prompts": 3}, cr.DtypeError, "a prompt is a list of tokens"),
        ({"prompts": None}, cr.DtypeError, "a prompt is a list of tokens"),
        ({"prompts": [[1], 2]}, cr.DtypeError, "a prompt is a list of tokens"),
        ({"prompts": [1.0]}, cr.DtypeError, r"whole numbers, not float 1\.0"),
        ({"prompts": [[1], [True]]}, cr.DtypeError, "whole numbers, not bool"),
        ({"prompts": [[[1]]]}, cr.DtypeError, "whole numbers, not list"),
        ({"prompts": np.ones((1, 1, 1), int)}, cr.DtypeError, "whole numbers, not list"),
        ({"prompts": [[1, 2], [3, V]]}, cr.IndexingError, "token 11 of prompt 1 .* 0 to 10"),
        ({"prompts": [-1]}, cr.IndexingError, "token -1 of prompt 0"),
        ({"prompts": [10**30]}, cr.IndexingError, "of prompt 0"),
        ({"max_new_tokens": -1}, cr.ConfigError, "max_new_tokens=-1: say 0 or more"),
        ({"max_new_tokens": 10**12}, cr.ConfigError, "at most 16,777,216"),
        ({"max_new_tokens": 2.0}, cr.DtypeError, "max_new_tokens is a whole number"),
        ({"max_new_tokens": None}, cr.DtypeError, "max_new_tokens is a whole number"),
        ({"stop": V}, cr.IndexingError, "stop=11 .* 0 to 10"),
        ({"stop": -1}, cr.IndexingError, "stop=-1"),
        ({"stop": [1]}, cr.DtypeError, "stop is a whole number, not list"),
        ({"temperature": -0.5}, cr.ConfigError, "temperature=-0.5"),
        ({"temperature": float("nan")}, cr.ConfigError, "temperature=nan"),
        ({"temperature": float("inf")}, cr.ConfigError, "temperature=inf"),
        ({"temperature": "hot"}, cr.DtypeError, "temperature is a number, not str 'hot'"),
        ({"generator": 3}, cr.DtypeError, "generator is a chainrule.Generator or"),
        ({"generator": np.random.default_rng(0)}, cr.DtypeError, "generator is"),
    ],
)
def test_bad_arguments(model: GPT, changes: dict[str, Any], kind: Any, words: str):
    asked = {"prompts": [1], "generator": random.Random(0), **changes}
    with pytest.raises(kind, match=words):
        by_generate(model, **asked)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0, 0.9])
def test_logits_that_are_not_finite(model: GPT, value: float, temperature: float):
    broken = copy.deepcopy(model)
    weight = broken.wpe.weight.detach().numpy().copy()
    weight[3] = value
    broken.wpe.weight.data = weight
    asked = {"temperature": temperature, "stop": None}
    assert len(by_generate(broken, [1], random.Random(0), **asked, max_new_tokens=3)) == 3
    for compiled in (False, True):
        with pytest.raises(NonFiniteError, match="diverged"):
            by_generate(broken, [1], random.Random(0), compiled=compiled, **asked)
    with pytest.raises(NonFiniteError, match="diverged"):
        by_sample(broken, [[1]], random.Random(0), **asked)
