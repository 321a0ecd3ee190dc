"""Training that is killed, or whose disk is full: what was saved is whole, nothing else is lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chainrule.cli import checkpoint as checkpoints
from chainrule.cli.main import main
from chainrule.files import whole_folders as files
from tests.attacks.killing import SMALL, STEPS

ROOT = Path(__file__).parents[2]
ENV = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "OPENBLAS_NUM_THREADS": "1",
}
SEED = int(os.environ.get("CHAINRULE_FUZZ_SEED", "0"))


def python(*args: str, limit: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    """What a Python process says."""
    return subprocess.run(
        [sys.executable, *args], env=ENV, capture_output=True, text=True, encoding="utf-8",
        check=False, preexec_fn=limit,
    )  # fmt: skip


def check_kills(seed: int, kills: int, folder: Path) -> None:
    """That a run killed so often ends as one that never was."""
    print(f"seed {seed}")
    done = python("-m", "tests.attacks.killing", str(seed), str(kills), str(folder))
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    found = json.loads(done.stdout)
    assert len(found["steps"]) == kills and found["steps"] == sorted(found["steps"]), found
    end = {"last": 0, "same": True, "rows": STEPS + 1, "left": [], "traceback": False}
    assert {key: found[key] for key in end} == end, f"seed {seed}: {found}"
    assert len(set(found["steps"])) > kills / 3, f"seed {seed}: {found}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it kills forked children")
def test_a_run_that_is_killed_twenty_times_ends_as_if_it_never_was(tmp_path: Path):
    check_kills(SEED, 20, tmp_path)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_runs_that_are_killed(seed: int, tmp_path: Path):
    check_kills(seed, 20, tmp_path)


# --- what a killed process leaves ----------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of three steps."""
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("ann\nbob\ncarla\ndan\n", encoding="utf-8")
    train = ["train", "--data", "names.txt", *SMALL, "--steps", "3", "--save-every", "1"]
    assert main([*train, "--out", "run"]) == 0
    return tmp_path / "run"


def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


@pytest.mark.skipif(os.name == "nt", reason="Windows does not tell whether a process has ended")
def test_the_next_start_cleans_what_dead_processes_left(run: Path):
    folder, parent = run / "checkpoints", os.getppid()
    for owner in (dead(), os.getpid(), parent):
        left = folder / f".step-000009.{owner}.tmp"
        left.mkdir()
        (left / "model.safetensors").write_bytes(b"half")
    (run / f".losses.csv.{dead()}.tmp").write_bytes(b"half")
    (folder / ".step-000009.my.tmp").mkdir()
    assert main(["train", "--resume", str(run), "--steps", "4"]) == 0
    left = sorted(p.name for p in run.rglob(".*"))
    assert left == [f".step-000009.{parent}.tmp", ".step-000009.my.tmp"]


def test_a_run_killed_before_its_first_checkpoint_can_begin_again(run: Path):
    begun = Path("begun/checkpoints")
    (begun / f".step-000000.{os.getpid()}.tmp").mkdir(parents=True)
    train = ["train", "--data", "names.txt", *SMALL, "--steps", "2", "--out", "begun"]
    assert main(train) == 0 and checkpoints.find(Path("begun")).name == "step-000002"


def test_a_checkpoint_that_is_half_removed_is_none(run: Path, monkeypatch: pytest.MonkeyPatch):
    """The process dies in the middle of removing the oldest one."""

    def dies(path: Path) -> None:
        (path / "state.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(files.shutil, "rmtree", dies)
        with pytest.raises(KeyboardInterrupt):
            files.remove_folder(run / "checkpoints" / "step-000002")
    names = [p.name for p in (run / "checkpoints").iterdir()]
    assert sorted(names) == [f".step-000002.{os.getpid()}.tmp", "step-000003"]
    files.clean(run / "checkpoints")
    assert [p.name for p in (run / "checkpoints").iterdir()] == ["step-000003"]


# --- a full disk ---------------------------------------------------------------------------------

JIT = """
import sys
import chainrule as cr
assert cr.jit(lambda x: cr.exp(x) * 2)(cr.tensor([0.0, 0.0])).tolist() == [2.0, 2.0]
print("right")
"""


@pytest.fixture
def full(tmp_path: Path):
    """A disk of 200 kB; skips where no disk may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if shutil.which("mount") is None:
        pytest.skip("there is no command mount")
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k,mode=700", "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_training_on_a_disk_that_fills_up(
    full: Path, run: Path, capsys: pytest.CaptureFixture[str]
):
    (full / "ballast").write_bytes(bytes(150_000))
    wide = ["--n-embd", "8", "--n-head", "2", "--block-size", "6", "--engine", "tensor"]
    train = ["train", "--data", "names.txt", *wide, "--steps", "9", "--save-every", "1"]
    assert main([*train, "--out", str(full / "run")]) == 2
    err = capsys.readouterr().err
    assert os.strerror(errno.ENOSPC) in err and err.count("\n") == 1 and "Traceback" not in err
    (full / "ballast").unlink()
    if (full / "run").exists():  # something fitted: that goes on
        assert not [p for p in (full / "run").rglob("*") if ".tmp" in p.name]


def test_compiling_on_a_disk_that_is_full(full: Path, monkeypatch: pytest.MonkeyPatch):
    folder = full / "cache"
    folder.mkdir(mode=0o700)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (full / "ballast").write_bytes(bytes(1 << 20))
    monkeypatch.setitem(ENV, "CHAINRULE_CACHE_DIR", str(folder))
    done = python("-W", "error", "-c", JIT)
    assert done.stdout == "right\n" and done.stderr == "" and not list(folder.iterdir())


def test_compiling_where_files_may_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "cache"
    monkeypatch.setitem(ENV, "CHAINRULE_CACHE_DIR", str(folder))
    monkeypatch.setitem(ENV, "PYTHONDONTWRITEBYTECODE", "1")  # it would be cut off
    done = python(
        "-W", "error", "-c", JIT,
        limit=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40)),
    )  # fmt: skip
    assert done.stdout == "right\n" and done.stderr == "" and not list(folder.iterdir())
