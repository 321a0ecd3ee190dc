"""The same bits for any number of workers: gradients, weights, losses, reductions, states."""

from __future__ import annotations

import hashlib
from functools import reduce
from typing import Any

import numpy as np
import pytest

from chainrule.parallel.shards import cut
from chainrule.parallel.tree import partners
from tests.parallel.running import Nursery

SIZES = (1, 2, 4)


@pytest.mark.parametrize("compiled", ["", "compiled"])
def test_workers_train_to_the_same_bits(workers: Nursery, compiled: str):
    told = [said for size in SIZES for said in workers.run(size, "train", "6", compiled)]
    assert len({said["digest"] for said in told}) == 1
    assert all(said["losses"] == told[0]["losses"] for said in told)
    assert len(set(told[0]["losses"])) == 6
    assert all(said["unused"] is None for said in told)
    assert all(said["traces"] == ([1, 1] if compiled else []) for said in told)


def test_so_they_do_without_memory_that_they_share(workers: Nursery):
    told = [workers.run(n, "train", "3", MEMORY="apart") for n in (1, 2, 4)]
    assert all(said == told[0][0] for some in told for said in some)


@pytest.mark.sweep
@pytest.mark.parametrize("compiled", ["", "compiled"])
def test_a_gpt_of_ten_million_numbers(workers: Nursery, compiled: str):
    told = [s for n in SIZES for s in workers.run(n, "gpt", "50", compiled, PATIENCE="500")]
    assert 10.6e6 < told[0]["count"] < 11e6
    assert all(said == told[0] for said in told)


@pytest.mark.parametrize(("size", "count"), [(3, 12), (3, 3), (5, 20), (2, 16)])
def test_so_they_do_with_a_power_of_two_of_micro_batches_each(
    workers: Nursery, size: int, count: int
):
    told = [workers.run(n, "train", "3", MICRO_BATCHES=str(count))[-1] for n in (1, size)]
    assert told[0] == told[1]


def tree(values: list[Any]) -> Any:
    """The fixed binary tree, spelled out."""
    while len(values) > 1:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [reduce(np.add, pair) for pair in pairs]
    return values[0]


@pytest.mark.parametrize("memory", ["shared", "apart"])
@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_all_reduce_adds_in_the_tree(workers: Nursery, size: int, memory: str):
    told = workers.run(size, "sums", memory)
    assert all(said == told[0] for said in told)
    large, small = [], []
    for rank in range(size):
        rng = np.random.default_rng(rank)
        x = rng.normal(size=70_001).astype(np.float32)
        large.append(x * (10.0 ** rng.integers(-9, 9, 70_001)))
        small.append(rng.normal(size=(3, 5)))
    assert told[0]["large"] == hashlib.sha256(tree(large).tobytes()).hexdigest()
    assert told[0]["small"] == tree(small).tolist()
    others = reduce(np.add, large) if size > 3 else tree(large) + 1
    assert hashlib.sha256(others.tobytes()).hexdigest() != told[0]["large"], "it could not fail"
    fractions = tree([0.1 * rank for rank in range(size)])
    assert told[0]["kinds"] == {"f": fractions, "i": size * (size - 1) // 2}
    assert told[0]["most"] == [size - 1, 0]


def test_an_average_that_is_kept_does_not_change(workers: Nursery):
    assert workers.run(2, "kept") == [True, True]


def test_states_of_worker_0_come_to_all(workers: Nursery):
    assert len(set(workers.run(3, "spread"))) == 1


@pytest.mark.parametrize("size", range(1, 18))
def test_in_each_round_every_worker_gets_the_sum_of_the_sibling_block(size: int):
    known = [{rank} for rank in range(size)]
    distance = 1
    while distance < size:
        after = [set(s) for s in known]
        for rank in range(size):
            source, targets = partners(rank, size, distance)
            if source is not None:
                assert not known[rank] & known[source], "nothing is added twice"
                assert rank in partners(source, size, distance)[1]
                after[rank] |= known[source]
            assert all(partners(q, size, distance)[0] == rank for q in targets)
        known, distance = after, 2 * distance
    assert all(s == set(range(size)) for s in known)


def test_parts_cover_a_batch_in_order():
    for size in range(20):
        for count in range(1, 9):
            rows = [i for k in range(count) for i in range(size)[cut(size, count, k)]]
            assert rows == list(range(size))
