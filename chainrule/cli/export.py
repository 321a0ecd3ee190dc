"""`chainrule export`: the training run that `chainrule train` would make, as a program in C."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Generator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from chainrule.cli import train
from chainrule.cli.files import CommandError, empty_folder, fresh_folder
from chainrule.cli.settings import Settings, new_settings
from chainrule.cli.tensor_engine import TensorEngine
from chainrule.cli.trainer import Run
from chainrule.data import IGNORE, load_names, read_documents

EXAMPLES = """examples:
  chainrule export --out c                      as `chainrule train` would train
  chainrule export --preset microgpt --steps 200 --out c
  cd c && gcc -O2 -std=c99 step.c -o step -lm && ./step
"""
_NOT_HERE = ("resume", "eval_every", "save_every")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options: those of `chainrule train`."""
    train.add_options(parser)


def command(asked: Mapping[str, Any], console: Console) -> int:
    """Write the program and its data; the exit code 0."""
    asked = dict(asked)
    out = asked.pop("out", None)
    for name in [n for n in _NOT_HERE if n in asked]:
        raise CommandError(
            f"--{name.replace('_', '-')} is of runs that Python makes: an exported one trains from "
            "the start to the end"
        )
    settings = new_settings(asked)
    if settings.engine == "value":
        raise CommandError("the value engine has no arrays to write in C: leave --engine out")
    documents = load_names() if settings.data is None else read_documents(settings.data)
    run = Run.begin(replace(settings, engine="tensor"), documents)
    stem = Path(settings.data).stem if settings.data else "names"
    fresh = Path("exports") / f"{stem}-{settings.preset}"
    folder = fresh_folder(fresh) if out is None else empty_folder(Path(out))
    _write(run, folder, console)
    return 0


def _write(run: Run, folder: Path, console: Console) -> None:
    """Write the training step as C, its weights, optimizer and batches beside it, and say how large
    it is."""
    engine = run.engine
    assert isinstance(engine, TensorEngine)
    model, optimizer = engine.model, engine.optimizer
    ignored = IGNORE if run.settings.batch > 1 else None

    def step(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets, ignore_index=ignored)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    lengths = {"tokens": (None, "T"), "targets": (None, "T")}
    # traced at a length at which no axis is a whole one by chance
    like = np.zeros((run.settings.batch, run.settings.block_size // 2 + 1), np.int64)
    batches = _batches(run, engine)
    from chainrule.compile.jit import jit  # the other commands run without llvmlite

    files = jit(step, dynamic=lengths).to_c(folder, like, like, batches=batches)
    size = files.source.stat().st_size + files.data.stat().st_size
    where = shlex.quote(str(folder))
    for line in (
        f"{files.source} and {files.data.name}, {size:,} bytes",
        f"cd {where} && gcc -O2 -std=c99 {files.source.name} -o step -lm && ./step",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _batches(run: Run, engine: TensorEngine) -> Generator[tuple[Any, Any]]:
    """What each step is given; the learning rate is set as the run's schedule has it."""
    s: Settings = run.settings
    for step in range(s.steps):
        for group in engine.optimizer.param_groups:
            group["lr"] = s.rate(step)
        batch = run.corpus.batch(step, s.batch, s.block_size)
        yield batch.tokens, batch.targets
