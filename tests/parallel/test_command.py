"""`chainrule train --workers`: the same run by several processes, and what goes wrong with them."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chainrule.cli import checkpoint
from chainrule.cli.main import main
from tests.parallel.running import PATIENCE, ROOT, environment

SMALL = ["--steps", "12", "--n-layer", "1", "--n-embd", "16", "--batch", "10", "--eval-every", "6"]
LONG = ["--steps", "2000", *SMALL[2:], "--save-every", "5", "--engine", "tensor"]
COMMAND = [sys.executable, "-m", "chainrule", "train"]


def train(*options: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *options], env=environment(**more), capture_output=True, text=True,
        encoding="utf-8", timeout=2 * PATIENCE, check=False,
    )  # fmt: skip


def digest(run: Path) -> str:
    """Of the losses, and of the last weights and moments."""
    newest = max((run / "checkpoints").iterdir())
    files = [run / "losses.csv", newest / "model.safetensors", newest / "training.safetensors"]
    return hashlib.sha256(b"".join([f.read_bytes() for f in files])).hexdigest()


def begun(*options: str) -> subprocess.Popen[str]:
    """Start the command, in a group of processes of its own."""
    return subprocess.Popen(
        [*COMMAND, *options], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, encoding="utf-8", start_new_session=True,
    )  # fmt: skip


def workers_of(launcher: int) -> list[int]:
    """The processes that a launcher has started."""
    path = Path(f"/proc/{launcher}/task/{launcher}/children")
    return [int(n) for n in path.read_text(encoding="utf-8").split()]


def wait_for(run: Path, step: int) -> None:
    """Wait until a step has been saved."""
    end = time.monotonic() + PATIENCE
    while not any(p.name >= f"step-{step:06d}" for p in run.glob("checkpoints/step-*")):
        assert time.monotonic() < end, list(run.glob("checkpoints/*"))
        time.sleep(0.05)


@pytest.mark.parametrize("engine", ["tensor", pytest.param("compiled", marks=pytest.mark.sweep)])
def test_one_and_two_workers_train_to_the_same_bits(tmp_path: Path, engine: str):
    runs = [tmp_path / "1", tmp_path / "2"]
    for count, run in zip("12", runs, strict=True):
        done = train(*SMALL, "--engine", engine, "--workers", count, "--out", str(run))
        assert done.returncode == 0, done.stderr
        assert "held-out loss" in done.stdout and done.stderr == ""
        assert done.stdout.count(f"{engine} engine") == 1, "one worker speaks"
    assert digest(runs[0]) == digest(runs[1])
    more = ["--resume", str(runs[1]), "--workers", "2", "--steps", "16"]
    assert train(*more).returncode == 0
    assert (runs[1] / "checkpoints" / "step-000016").is_dir()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="who is whose child: Linux says")
def test_a_killed_worker_an_interruption_and_a_killed_launcher(tmp_path: Path):
    run = tmp_path / "run"
    launcher = begun(*LONG, "--workers", "2", "--out", str(run))
    wait_for(run, 5)
    victims = workers_of(launcher.pid)
    assert len(victims) == 2
    os.kill(victims[1], signal.SIGKILL)
    saved = max((run / "checkpoints").iterdir()).name
    wait_for(run, int(saved.removeprefix("step-")) + 10)
    os.kill(launcher.pid, signal.SIGINT)
    out, err = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 128 + signal.SIGINT, err
    assert "chainrule: worker 1 of 2 was killed (signal 9): all start again, 3 times more" in err
    assert "and saved; go on with" in out
    launcher = begun("--resume", str(run), "--workers", "2")
    end = time.monotonic() + PATIENCE
    while len(orphans := workers_of(launcher.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    wait_for(run, int(max((run / "checkpoints").iterdir()).name.removeprefix("step-")) + 5)
    os.kill(launcher.pid, signal.SIGKILL)
    launcher.communicate()
    while any(Path(f"/proc/{pid}").exists() for pid in orphans) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in orphans if Path(f"/proc/{pid}").exists()], "an orphan goes on"


FULL = """
import errno, os
from pathlib import Path

whole = os.fsync

def full(handle):
    if "step-000004" in os.readlink(f"/proc/self/fd/{handle}"):
        raise OSError(errno.ENOSPC, "No space left on device")
    whole(handle)

os.fsync = full
"""
"""A disk that has no room for the checkpoint of step 4."""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="which file: Linux says")
def test_a_full_disk(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(FULL, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    run = tmp_path / "run"
    options = [*SMALL, "--engine", "tensor", "--save-every", "2", "--out", str(run)]
    done = train(*options, "--workers", "2", PYTHONPATH=path)
    assert done.returncode == 2
    assert re.fullmatch(
        r"chainrule: step 4 could not be saved in \S+ \(No space left on device\); what was saved "
        r"before is whole: make room, then go on with chainrule train --resume \S+\.\n",
        done.stderr,
    ), done.stderr
    assert checkpoint.load(checkpoint.find(run)).step == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--workers", "0"], "--workers is at least 1, not 0"),
        (["--workers", "11"], "--micro-batches 11 are more than the 10 documents of a step"),
        (["--workers", "4", "--micro-batches", "2"], "at most 2, not 4"),
        (["--workers", "2", "--engine", "value"], "the value engine computes a step as a whole"),
        (["--micro-batches", "0"], "--micro-batches must be a whole number, at least 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], says: str
):
    out = tmp_path / "run"
    assert main(["train", *SMALL, *options, "--out", str(out)]) == 2
    assert says in capsys.readouterr().err
    assert not out.exists()
