"""The examples run, with small numbers, learn something and end with what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SMALL: dict[str, tuple[dict[str, Any], str]] = {
    "resnet_digits": ({"epochs": 1}, "right: "),
    "lstm_names": ({"steps": 12, "width": 16}, "names: "),
    "vae_digits": ({"epochs": 2}, "epoch   2: "),
}
"""By name: the arguments of `main`, and what is printed near the end."""


def test_every_example_is_here():
    several_workers = {"parallel_names"}  # see tests/parallel
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SMALL) | several_workers


@pytest.mark.parametrize("name", SMALL)
def test_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    if name.endswith("digits"):
        pytest.importorskip("sklearn")
    arguments, ending = SMALL[name]
    main = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]
    result = main(**arguments)
    assert result == result
    assert ending in capsys.readouterr().out
