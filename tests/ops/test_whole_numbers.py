"""Ops without a derivative, creation, random numbers and trees: what NumPy gives, as tensors."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import chainrule as cr
from chainrule.tree import flatten
from tests.ops.check import same_bits, specs
from tests.ops.sample import apart

X = np.rint(apart(2, 3, 4))
AXES: list[dict[str, Any]] = [
    {},
    {"axis": 1},
    {"axis": -1, "keepdims": True},
    {"axis": None, "keepdims": True},
]


@pytest.mark.parametrize("name", ["any", "all", "count_nonzero", "argmax", "argmin"])
@pytest.mark.parametrize("kw", [*AXES, {"axis": (0, 2)}], ids=str)
def test_reductions_to_whole_numbers(name: str, kw: dict[str, Any]):
    if name.startswith("arg") and isinstance(kw.get("axis"), tuple):
        with pytest.raises(cr.ChainruleError):
            getattr(cr, name)(cr.tensor(X), **kw)
        return
    x = cr.tensor(X, requires_grad=True)
    y = getattr(cr, name)(x, **kw)
    same_bits(y, getattr(np, name)(X, **kw), name)
    assert not y.requires_grad
    specs(lambda v: getattr(cr, name)(v, **kw), (X,))


def test_nonzero_and_one_hot():
    for mine, theirs in zip(cr.nonzero(cr.tensor(X)), np.nonzero(X), strict=True):
        same_bits(mine, theirs, "nonzero")
    assert cr.one_hot(cr.tensor([[2, 0]]), 3).tolist() == [[[0, 0, 1], [1, 0, 0]]]
    assert cr.one_hot(cr.tensor(1), 2, dtype=np.float64).dtype == np.float64


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (cr.sum(cr.tensor(X > 0)), np.sum(X > 0)),
        (cr.sum(cr.tensor(X > 0), axis=0), np.sum(X > 0, axis=0)),
        (cr.sum(cr.tensor(np.uint8([200, 100]))), np.sum(np.uint8([200, 100]))),
        (cr.prod(cr.tensor(np.int8([100, 3]))), np.prod(np.int8([100, 3]))),
        (cr.prod(cr.zeros((0, 3)), axis=0), np.ones(3, np.float32)),
        (cr.mean(cr.tensor([1, 2])), np.float64(1.5)),
        (cr.max(cr.tensor([3, 5])), np.int64(5)),
        (cr.sum(cr.tensor([1.5]), dtype=np.float64), np.float64(1.5)),
        (cr.logsumexp(cr.tensor([0, 0])), np.log(np.float64(2))),
        (cr.norm(cr.tensor([3, 4])), np.float64(5)),
        (cr.norm(cr.tensor([3.0, 0.0]), ord=0), np.float32(1)),
    ],
)
def test_reductions_of_other_dtypes(mine: Any, theirs: Any):
    same_bits(mine, theirs, "reduction")


# --- Creation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (cr.zeros(3), np.zeros(3, np.float32)),
        (cr.zeros(()), np.zeros((), np.float32)),
        (cr.ones((2, 3), np.int64), np.ones((2, 3), np.int64)),
        (cr.empty((0, 2)), np.zeros((0, 2), np.float32)),
        (cr.full((2,), 7), np.full(2, 7)),
        (cr.full((2,), 1.5), np.full(2, 1.5, np.float32)),
        (cr.full(2, True), np.full(2, True)),
        (cr.zeros_like(cr.tensor(X)), np.zeros_like(X)),
        (cr.ones_like(cr.tensor(X), np.float16), np.ones_like(X, np.float16)),
        (cr.full_like(cr.tensor(X), 2.5), np.full_like(X, 2.5)),
        (cr.arange(5), np.arange(5)),
        (cr.arange(1, 7, 2), np.arange(1, 7, 2)),
        (cr.arange(0.5, 2.5), np.arange(0.5, 2.5, dtype=np.float32)),
        (cr.arange(5, 1, -2), np.arange(5, 1, -2)),
        (cr.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (cr.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, False, dtype=np.float32)),
        (cr.eye(2, 3, k=1), np.eye(2, 3, 1, np.float32)),
    ],
)
def test_creation(mine: Any, theirs: Any):
    same_bits(mine, theirs, "creation")


def test_a_tensor_is_a_copy_and_an_array_is_a_view_of_it():
    array = X.copy()
    t = cr.tensor(array)
    array[...] = 0
    assert np.array_equal(t.numpy(), X)
    assert cr.asarray(t) is t and cr.tensor(t) is not t
    assert np.shares_memory(t.numpy(), t.numpy())


# --- Random numbers ------------------------------------------------------------------------------


def test_a_seed_gives_the_same_stream_and_a_state_continues_it():
    a, b = cr.Generator(3), cr.Generator(3)
    assert a.normal((4,)).tolist() == b.normal((4,)).tolist()
    kept = json.loads(json.dumps(a.state))
    rest = [a.uniform((2,)).tolist(), a.integers(0, 9, (5,)).tolist(), a.permutation(6).tolist()]
    c = cr.Generator()
    c.state = kept
    assert rest == [
        c.uniform((2,)).tolist(),
        c.integers(0, 9, (5,)).tolist(),
        c.permutation(6).tolist(),
    ]
    assert (
        cr.Generator(1).manual_seed(3).normal((4,)).tolist()
        == cr.Generator(3).normal((4,)).tolist()
    )


def test_random_numbers_are_distributed_as_they_say():
    """20,000 numbers: means within five standard errors."""
    g, n = cr.Generator(11), 20_000
    normal, uniform = g.normal((n,), mean=2.0, std=3.0), g.uniform((n,), low=-1.0, high=3.0)
    coin = g.bernoulli(0.3, (n,))
    assert normal.dtype == uniform.dtype == np.float32 and coin.dtype == bool
    assert abs(float(cr.mean(normal)) - 2) < 15 / n**0.5
    assert abs(float(cr.std(normal)) - 3) < 15 / n**0.5
    assert abs(float(cr.mean(uniform)) - 1) < 6 / n**0.5
    assert abs(float(cr.mean(coin)) - 0.3) < 2.5 / n**0.5
    draws = [g.choice([0.0, 1.0, 3.0]) for _ in range(2000)]
    assert 0 not in draws and abs(draws.count(2) / 2000 - 0.75) < 0.05


def test_dropout_draws_from_its_generator_and_keeps_the_mean():
    x = cr.ones((20_000,))
    a, b = (cr.dropout(x, 0.4, generator=cr.Generator(5)) for _ in range(2))
    assert a.tolist() == b.tolist()
    assert set(np.unique(a.numpy())) == {np.float32(0), np.float32(1 / 0.6)}
    assert abs(float(cr.mean(a)) - 1) < 0.03
    assert cr.dropout(x, 0.4, training=False) is x and not cr.dropout(x, 1.0).numpy().any()


# --- Trees ---------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Box:
    inside: Any


class Nothing(NamedTuple):
    pass


TREES: list[Any] = [
    3.0, None, [], (), {}, Nothing(), [1, (2, {"a": 3})], Pair(1, [2]), Box({"x": (1, None)}),
    OrderedDict(b=1, a=[2, 3]), {"deep": [[[[Box(Pair(1, 2))]]]]},
]  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_a_tree_is_rebuilt_as_it_was(tree: Any):
    leaves, structure = flatten(tree)
    again = structure.unflatten(leaves)
    assert again == tree and type(again) is type(tree)
    assert hash(structure) == hash(flatten(again)[1])


def test_trees_are_mapped_together_and_must_agree():
    assert cr.tree_map(lambda a, b: a - b, Pair(5, [7]), Pair(1, [2])) == Pair(4, [5])
    leaves, structure = flatten({"a": 1, "b": 2})
    for wrong in (leaves[:1], [*leaves, 3]):
        with pytest.raises(cr.DtypeError, match="leaves than"):
            structure.unflatten(wrong)
