"""docs/pains.md says what we and PyTorch really answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chainrule.errors import GradientError
from tests.explain.pains import PAINS, Program

PAGE = Path(__file__).parents[2] / "docs" / "pains.md"


def rows() -> dict[str, list[str]]:
    lines = [r for r in PAGE.read_text(encoding="utf-8").splitlines() if r.startswith("| `")]
    cells = [[c.strip() for c in line.strip("|").split(" | ")] for line in lines]
    return {c[0]: c[1:] for c in cells}


def answer(program: Program) -> str:
    """A result as it stands in the page: numbers, or `error`."""
    try:
        value = program()
    except GradientError:
        return "error"
    return shown(value.detach().numpy() if isinstance(value, torch.Tensor) else value.numpy())


def shown(value: Any) -> str:
    return str(np.asarray(value).round(6).tolist()).replace(".0,", ",").replace(".0]", "]")


def test_the_page_and_the_programs_are_the_same():
    assert list(rows()) == list(PAINS)


@pytest.mark.parametrize("what", PAINS)
def test_ours(what: str):
    assert answer(PAINS[what][0]) == rows()[what][1].strip("*")


@pytest.mark.parametrize("what", PAINS)
def test_pytorch(what: str):
    assert answer(PAINS[what][1]) == rows()[what][2].strip("*")


def test_the_counts_in_the_text_are_those_of_the_table():
    table = rows()
    ours, theirs, jax = [sum("nan" in row[i] for row in table.values()) for i in (1, 2, 3)]
    said = f"NaN in {ours} of {len(table)} rows here, in {theirs} with PyTorch, in {jax} with JAX"
    assert said in " ".join(PAGE.read_text(encoding="utf-8").split())
