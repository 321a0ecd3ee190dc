"""The sample of a sweep: every value that has to occur does, the same cases in every run."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sampling import left_out, sampled

OPS, DTYPES = ["sin", "cos", "exp", "log", "tanh"], ["float32", "float64", "float16"]


@dataclass
class Item:
    """What a sample reads of a test that pytest has collected."""

    nodeid: str
    callspec: Any
    mark: Any = field(repr=False)

    def get_closest_marker(self, name: str) -> Any:
        return self.mark if name == "sampled" else None


def collected(decorator: Any, file: str = "tests/test_x.py") -> list[Any]:
    """A test of each op in each dtype, under a decorator."""
    return [
        Item(
            f"{file}::test_y[{op}-{dtype}]",
            SimpleNamespace(params={"op": op, "dtype": dtype}),
            decorator.mark if decorator else None,
        )
        for op, dtype in product(OPS, DTYPES)
    ]


def kept(
    decorator: Any, backwards: bool = False, file: str = "tests/test_x.py"
) -> list[dict[str, str]]:
    items = collected(decorator, file)
    out = {item.nodeid for item in left_out(items[::-1] if backwards else items)}
    return [item.callspec.params for item in items if item.nodeid not in out]


def test_each_value_of_each_named_parameter_stays():
    sample = kept(sampled("op", "dtype"))
    assert {case["op"] for case in sample} == {*OPS}
    assert {case["dtype"] for case in sample} == {*DTYPES}
    assert len(sample) <= len(OPS) + len(DTYPES)


def test_parameters_are_mixed():
    assert len({case["dtype"] for case in kept(sampled("op"))}) > 1
    assert len(kept(sampled("op"))) == len(OPS)


def test_groups_of_cases_and_shares_of_them():
    sample = kept(sampled(by=lambda op, dtype: (len(op), dtype)))
    assert {(len(c["op"]), c["dtype"]) for c in sample} == set(product((3, 4), DTYPES))
    assert len(sample) == 6
    assert len(kept(sampled(one_in=4))) == 4


@pytest.mark.parametrize("decorator", [sampled("op"), sampled(one_in=3)])
def test_the_order_in_which_tests_are_collected_decides_nothing(decorator: Any):
    assert kept(decorator) == kept(decorator, backwards=True)


def test_a_file_that_is_moved_within_its_part_keeps_its_sample():
    there = kept(sampled(one_in=3), file="tests/ops/test_x.py")
    assert kept(sampled(one_in=3), file="tests/ops/signal/test_x.py") == there
    assert kept(sampled(one_in=3), file="tests/nn/test_x.py") != there


def test_a_test_that_is_not_decorated_stays():
    assert len(kept(None)) == len(OPS) * len(DTYPES)
