"""`chainrule train --workers`: the same run, computed by several processes.

The command itself begins or resumes the run and saves it; each worker then resumes it from its
folder. Worker 0 shows the progress, saves, and concludes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from chainrule.cli.files import CommandError
from chainrule.cli.options import integer
from chainrule.cli.settings import Settings, option
from chainrule.cli.trainer import Run
from chainrule.errors import ConfigError
from chainrule.optional import is_installed, require
from chainrule.parallel.group import Group
from chainrule.parallel.launcher import launch
from chainrule.parallel.membership import membership

KEPT = ("steps", "data", "engine", "save_every")
"""Settings that a run may be resumed with other values of."""
FEWEST = 4
"""Micro-batches of a step with workers: so that 1, 2 and 4 of them give the same bits."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group("several workers (needs chainrule[parallel])")
    group.add_argument(
        "--workers",
        type=integer,
        metavar="N",
        help="processes on this machine that share each step; 1, 2 and 4 train to the same bits",
    )
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="let the workers run in the Ray cluster there ('local': one on this machine); --out "
        "is a folder that all its machines share",
    )
    group.add_argument(
        "--micro-batches",
        type=integer,
        metavar="N",
        help="parts of a step, added in a fixed tree (default: 1; with --workers 4, or as many as "
        "workers)",
    )


def is_worker() -> bool:
    """Whether this process is one of several workers."""
    return membership().size > 1


def implied_settings(workers: int | None) -> dict[str, int]:
    """What `--workers` implies for a new run's settings."""
    if workers is None:
        return {}
    if workers < 1:
        raise ConfigError(f"--workers is at least 1, not {workers}")
    return {"micro_batches": workers if FEWEST % workers else FEWEST}


def check(settings: Settings, workers: int) -> None:
    """Refuse more workers than the run has work for."""
    if workers > 1 and not is_installed("torch"):
        require("torch", "--workers")
    count = settings.micro_batches
    if workers > count:
        raise CommandError(
            f"the run divides a step into {count} micro-batches, so that --workers is at most "
            f"{count}, not {workers}: begin a run with more of them, with {option('micro_batches')}"
        )


def train(run: Run, folder: Path, workers: int) -> int:
    """Let workers take the steps that are left; the exit code."""
    command = ["-m", "chainrule", "train"]
    for name, value in worker_options(run, folder).items():
        command += [] if value is None else [option(name), str(value)]
    return launch(command, workers, announce=_announce)


def worker_options(run: Run, folder: Path) -> dict[str, Any]:
    """The options of a worker's own command."""
    kept = {name: getattr(run.settings, name) for name in KEPT}
    return {"resume": str(folder.absolute()), **kept}


def _announce(sentence: str) -> None:
    sys.stderr.write(f"chainrule: {sentence}.\n")
    sys.stderr.flush()


def agree(run: Run, folder: Path, group: Group) -> None:
    """Make sure that all workers have found the same checkpoint; from now on they share steps."""
    first = group.all_reduce(run.step, "min")
    if first != group.all_reduce(run.step, "max"):
        raise CommandError(
            f"worker {group.rank} finds step {run.step} in {folder}, another worker step {first}: "
            "their machines do not share the folder; put the run where all see it"
        )
    run.group = group
