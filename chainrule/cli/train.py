"""`chainrule train`: train a GPT on documents, watch it, keep it.

A run has a folder, in which `checkpoints/` grows, and at the end or when it is interrupted what
`report` writes. Bad settings and bad data are refused before the folder is made.
"""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from chainrule.cli import checkpoint as checkpoints
from chainrule.cli import ray_cluster, report, threads, workers
from chainrule.cli.files import CommandError, empty_folder, fresh_folder
from chainrule.cli.options import integer, number
from chainrule.cli.progress import progress
from chainrule.cli.settings import DTYPES, ENGINES, PRESETS, Settings, new_settings, option
from chainrule.cli.trainer import Run
from chainrule.data import load_names, read_documents
from chainrule.files.whole_folders import clean
from chainrule.parallel.worker_setup import group

EXAMPLES = """examples:
  chainrule train                               the names in the package: seconds, 20 new names
  chainrule train --data poems.txt --steps 5000 --holdout 0.1 --out runs/poems
  chainrule train --preset microgpt --engine value    every number a node of its own
  chainrule train --resume runs/poems           go on after an interruption, exactly
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options. Those not given are absent, so that presets can fill them in."""
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument(
        "--data", metavar="FILE", help="UTF-8 text, one document a line (default: 5,163 US names)"
    )
    parser.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="microgpt: one document a step, the published run with --seed 42; gpt2: a small one, "
        "32 documents a step (default: gpt2 for the names in the package, microgpt otherwise)",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="compiled steps (default), tensors op by op, or single numbers: slow, all visible",
    )
    parser.add_argument("--dtype", choices=DTYPES, help="default: the preset's")
    parser.add_argument("--steps", type=integer, metavar="N", help="how many steps (default: 1000)")
    parser.add_argument("--batch", type=integer, metavar="N", help="documents a step")
    parser.add_argument("--lr", type=number, metavar="X", help="the highest learning rate")
    parser.add_argument(
        "--seed", type=integer, metavar="N", help="of all random numbers (default: 42)"
    )
    parser.add_argument(
        "--holdout",
        type=number,
        metavar="FRACTION",
        help="of the documents, to measure on (default: 0.1 of the package's names, 0 of a file)",
    )
    _add_groups(parser)
    workers.add_options(parser)


def _add_groups(parser: argparse.ArgumentParser) -> None:
    """The model's sizes, and what is kept."""
    sizes = parser.add_argument_group("the model's sizes (default: the preset's)")
    sizes.add_argument("--n-layer", type=integer, metavar="N", help="blocks")
    sizes.add_argument("--n-head", type=integer, metavar="N", help="heads of attention in each")
    sizes.add_argument("--n-embd", type=integer, metavar="N", help="channels; heads divide them")
    sizes.add_argument("--block-size", type=integer, metavar="N", help="characters that it can see")
    kept = parser.add_argument_group("what is kept")
    kept.add_argument(
        "--out",
        metavar="DIR",
        help="the run's folder, new or empty (default: a fresh one in runs/)",
    )
    kept.add_argument("--save-every", type=integer, metavar="N", help="steps (default: a tenth)")
    kept.add_argument(
        "--eval-every", type=integer, metavar="N", help="steps (default: a twentieth)"
    )
    kept.add_argument(
        "--resume",
        metavar="DIR",
        help="continue the run in this folder, with its settings; --steps may be raised, --data "
        "may name the file's new place",
    )


def command(asked: Mapping[str, Any], console: Console) -> int:
    """Train; the exit code: 0 when all steps are taken, 128 + n if interrupted by signal n."""
    asked = dict(asked)
    if workers.is_worker():
        run, folder = _load_run(asked, Path(asked.pop("resume", ".")))
        return _take_steps(run, folder, console)
    count, cluster = asked.pop("workers", None), asked.pop("ray", None)
    if cluster is not None and count is None:
        raise CommandError("--ray needs --workers: how many of them?")
    given, out = asked.pop("resume", None), asked.pop("out", None)
    if given is None:
        run, folder = _new_run({**workers.implied_settings(count), **asked}, out, count or 1)
    else:
        if out is not None:
            raise CommandError("--out and --resume do not go together: a run stays in its folder")
        run, folder = _load_run(asked, Path(given))
        workers.check(run.settings, count or 1)
    report.introduce(run, folder, console)
    if cluster is not None:
        return ray_cluster.train(workers.worker_options(run, folder), count, cluster)
    if count is not None and count > 1:
        return workers.train(run, folder, count)
    return _take_steps(run, folder, console)


def _take_steps(run: Run, folder: Path, console: Console) -> int:
    """Take the steps that are left, with other workers if there are, and conclude."""
    with _signals() as caught, group(run.settings.micro_batches) as together:
        threads.limit(run.settings)
        workers.agree(run, folder, together)
        stopped = _advance(run, folder, console, caught)
    if together.is_first():
        ending = report.conclude if run.is_complete else report.report_interruption
        ending(run, folder, console)
    return 0 if run.is_complete else 128 + stopped


def _new_run(asked: Mapping[str, Any], out: str | None, count: int) -> tuple[Run, Path]:
    """A new run for so many workers, saved for the first time, and its new folder."""
    settings = new_settings(asked)
    workers.check(settings, count)
    if settings.data is not None:  # so that a resumed run finds it from any folder
        settings = replace(settings, data=str(Path(settings.data).absolute()))
    run = Run.begin(settings, _documents(settings))
    stem = Path(settings.data).stem if settings.data else "names"
    fresh = Path("runs") / f"{stem}-{settings.preset}"
    folder = fresh_folder(fresh) if out is None else empty_folder(Path(out))
    try:
        checkpoints.write(folder, run.checkpoint())
    except BaseException as cause:
        _remove_empty(folder)
        if not isinstance(cause, OSError):
            raise
        raise CommandError(
            f"the folder {folder} cannot be written to ({cause.strerror}): give another with --out"
        ) from cause
    return run, folder


def _remove_empty(folder: Path) -> None:
    """Take away the folders that were made for a run that could not begin."""
    for path in (folder / "checkpoints", folder):
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()


def _load_run(asked: dict[str, Any], given: Path) -> tuple[Run, Path]:
    """The run in `given`, as it was when it was last saved, and its folder."""
    path = checkpoints.find(given)
    saved = checkpoints.load(path)
    settings = Settings.from_dict(saved.settings)
    for name, value in asked.items():
        if name not in workers.KEPT and value != getattr(settings, name):
            raise CommandError(
                f"a resumed run keeps its settings: {option(name)} was {getattr(settings, name)}, "
                f"not {value}; leave it out, or begin a new run"
            )
    changes = {name: value for name, value in asked.items() if name in workers.KEPT}
    if "data" in changes:
        changes["data"] = str(Path(changes["data"]).absolute())
    settings = replace(settings, **changes)
    if settings.steps <= saved.step and not workers.is_worker():
        raise CommandError(
            f"the run in {given} has taken {saved.step} steps of {settings.steps}: to go on, "
            "ask for more with --steps"
        )
    run, folder = Run.resume(saved, _documents(settings), changes), checkpoints.run_of(path)
    if not workers.is_worker():
        for place in (folder, folder / "checkpoints"):
            clean(place)
        checkpoints.put_later_aside(path)
    return run, folder


def _documents(settings: Settings) -> list[str]:
    return load_names() if settings.data is None else read_documents(settings.data)


# --- While it trains -----------------------------------------------------------------------------


def _advance(run: Run, folder: Path, console: Console, caught: Sequence[int]) -> int:
    """Take the steps that are left, saving now and then, until a worker has caught a signal; which.

    All workers stop after the same step.
    """
    saved, stopped = run.step, 0
    with progress(console, run.step, run.settings.steps) as shown:
        while not run.is_complete and not stopped:
            loss = run.advance()
            measured = bool(run.held_out) and run.held_out[-1][0] == run.step
            shown.step(run.step, loss, run.held_out[-1][1] if measured else None)
            if run.save_due:
                _save(run, folder)
                saved = run.step
            stopped = int(run.group.all_reduce(caught[0] if caught else 0, "max"))
    if run.step != saved:
        _save(run, folder)
    return stopped


def _save(run: Run, folder: Path) -> None:
    if not run.group.is_first():
        return
    try:
        checkpoints.write(folder, run.checkpoint())
    except OSError as cause:
        raise CommandError(
            f"step {run.step} could not be saved in {folder} ({cause.strerror}); what was saved "
            f"before is whole: make room, then go on with {report.resuming(folder)}"
        ) from cause


@contextmanager
def _signals() -> Generator[list[int]]:
    """A list that receives the first SIGINT or SIGTERM; a second one acts as it always did."""
    caught: list[int] = []
    before: dict[int, Any] = {}

    if threading.current_thread() is not threading.main_thread():
        yield caught  # in a worker of Ray's, which gets its signals
        return

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        restore()

    def restore() -> None:
        for one, handler in before.items():
            signal.signal(one, handler)

    for one in (signal.SIGINT, signal.SIGTERM):
        before[one] = signal.signal(one, catch)
    try:
        yield caught
    finally:
        restore()
