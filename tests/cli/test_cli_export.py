"""`chainrule export`: the program in C trains as `chainrule train` does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chainrule.cli.main import main
from chainrule.cli.settings import new_settings
from chainrule.cli.trainer import Run
from chainrule.data import load_names
from tests.compile.c.ccompiler import losses, needs_compiler

SMALL = ["--n-embd", "8", "--n-head", "2", "--block-size", "9"]
SIZES = {"n_embd": 8, "n_head": 2, "block_size": 9}


@needs_compiler
@pytest.mark.parametrize(
    ("preset", "batch"), [("microgpt", 1), pytest.param("gpt2", 4, marks=pytest.mark.sweep)]
)
def test_its_losses_are_those_of_training(
    preset: str, batch: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--preset", preset, "--dtype", "float64", "--steps", "12", "--batch", str(batch)]
    folder = tmp_path / "c"
    assert main(["export", *asked, *SMALL, "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "step.c and step.bin" in said.replace("\n", " ")
    assert "gcc -O2 -std=c99 step.c -o step -lm && ./step" in said
    settings = new_settings(
        {"preset": preset, "dtype": "float64", "steps": 12, "batch": batch, **SIZES}
    )
    run = Run.begin(settings, load_names())
    want = [run.advance() for _ in range(12)]
    got = losses(folder / "step.c", 12)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "value"], "leave --engine out"),
        (["--resume", "runs/x"], "--resume is of runs that Python makes"),
        (["--steps", "0"], "--steps must be"),
    ],
)
def test_what_it_refuses(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    assert main(["export", *options, "--out", str(folder)]) == 2
    assert words in capsys.readouterr().err
    assert not folder.exists()
