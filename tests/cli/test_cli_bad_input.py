"""Bad input: one clear sentence on stderr, exit code 2, nothing lost or half-written."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chainrule
from chainrule.cli.main import main
from chainrule.files import whole_folders as files
from tests.sampling import sampled_file

pytestmark = sampled_file(one_in=2)

SMALL = ["--n-embd", "4", "--n-head", "2", "--block-size", "6", "--steps", "6"]
TRAIN = ["train", "--data", "names.txt", *SMALL]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own with a good file in it."""
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("ann\nbob\ncarla\ndan\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*TRAIN, "--out", "run"]) == 0
    capsys.readouterr()
    return "run"


def tree() -> dict[str, bytes]:
    """Every file below the current folder, with its content."""
    return {str(p): p.read_bytes() for p in sorted(Path().rglob("*")) if p.is_file()}


def refused(capsys: pytest.CaptureFixture[str], args: list[str]) -> str:
    """The one sentence with which `args` are refused; nothing on disk changes."""
    before, folders = tree(), sorted(Path().rglob("*"))
    code = main(args)
    out, err = capsys.readouterr()
    assert code == 2, (out, err)
    assert err.startswith("chainrule: ") and err.endswith(".\n") and err.count("\n") == 1
    assert "Traceback" not in out + err and tree() == before
    assert sorted(Path().rglob("*")) == folders
    return err


# --- data


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "bad.txt is empty"),
        (b"\n  \n", "bad.txt is empty"),
        (b"ann\n", "at least two documents"),
        (b"\x89PNG\r\n\x1a\n\0\0", "not UTF-8 text|not a text file"),
        (b"ann\nb\xe9b\n", "not UTF-8 text"),
        (b"\xff\xfea\0n\0", "not a text file"),
    ],
    ids=["empty", "blank", "one document", "binary", "latin 1", "utf-16"],
)
def test_bad_files(capsys: pytest.CaptureFixture[str], raw: bytes, says: str):
    Path("bad.txt").write_bytes(raw)
    err = refused(capsys, ["train", "--data", "bad.txt", *SMALL])
    assert any(part in err for part in says.split("|"))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("none.txt", "there is no file"),
        (".", "is a folder"),
        ("names.txt/deeper", "there is no file"),
        ("/dev/null", "not a regular file"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_bad_paths(capsys: pytest.CaptureFixture[str], path: str, says: str):
    assert says in refused(capsys, ["train", "--data", path, *SMALL])


# --- settings


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--n-embd", "10", "--n-head", "4"], "--n-head 4 does not divide --n-embd 10"),
        (["--n-layer", "1000000000000"], "at most 17,179,869,184 are trained here"),
        (["--n-layer", "9" * 60], "--n-layer must be at most 9,007,199,254,740,992"),
        (["--batch", "1000000000"], "more than the 16,777,216 that a step reads"),
        (["--n-layer", "0"], "--n-layer must be a whole number, at least 1, not 0"),
        (["--n-embd", "-16"], "--n-embd must be a whole number, at least 1, not -16"),
        (["--block-size", "-1"], "--block-size must be"),
        (["--steps", "-5"], "--steps must be"),
        (["--steps", "0"], "--steps must be"),
        (["--batch", "0"], "--batch must be"),
        (["--seed", "-1"], "--seed must be a whole number, at least 0, not -1"),
        (["--save-every", "-1"], "--save-every must be"),
        (["--steps", "many"], "--steps: 'many' is not a whole number"),
        (["--steps", "1.5"], "'1.5' is not a whole number"),
        (["--lr", "nan"], "--lr must be a number above 0, not nan"),
        (["--lr", "inf"], "--lr must be"),
        (["--lr", "-0.1"], "--lr must be"),
        (["--lr", "0"], "--lr must be"),
        (["--lr", "fast"], "'fast' is not a number"),
        (["--holdout", "1"], "--holdout must be at least 0 and below 1"),
        (["--holdout", "nan"], "--holdout must be"),
        (["--preset", "gpt5"], "--preset"),
        (["--engine", "gpu"], "--engine"),
        (["--dtype", "float16"], "--dtype"),
        (["--engine", "value", "--dtype", "float32"], "computes in float64, not in float32"),
        (["--colour"], "--colour"),
        (["--lr"], "--lr"),
    ],
)
def test_bad_settings(capsys: pytest.CaptureFixture[str], options: list[str], says: str):
    assert says in refused(capsys, [*TRAIN, *options])


def test_a_rate_that_diverges_keeps_what_was_saved(capsys: pytest.CaptureFixture[str]):
    wild = [*TRAIN, "--lr", "1e140", "--out"]
    assert main([*wild, "wild", "--save-every", "5"]) == 2
    err = capsys.readouterr().err
    assert "diverged" in err and "smaller --lr" in err and err.count("\n") == 1
    assert main(["sample", "--checkpoint", "wild", "--count", "1"]) == 0
    assert main([*wild, "wilder", "--save-every", "1"]) == 2
    capsys.readouterr()
    assert "training has diverged" in refused(capsys, ["sample", "--checkpoint", "wilder"])


@pytest.mark.parametrize("args", [[], ["fly"], ["train", "sample"]])
def test_commands_that_are_none(capsys: pytest.CaptureFixture[str], args: list[str]):
    assert "--help" in refused(capsys, args)


# --- folders


def test_a_folder_in_use_is_not_written_over(capsys: pytest.CaptureFixture[str], run: str):
    assert f"--resume {run}" in refused(capsys, [*TRAIN, "--out", run])


@pytest.mark.parametrize("out", ["names.txt", "names.txt/run", "/proc/run", "/dev/null/run"])
def test_folders_that_cannot_be_written(capsys: pytest.CaptureFixture[str], out: str):
    err = refused(capsys, [*TRAIN, "--out", out])
    assert out in err and "--out" in err


def test_a_default_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str]):
    Path("runs").write_text("a file in the way", encoding="utf-8")
    assert "--out" in refused(capsys, TRAIN)


def test_out_and_resume_exclude_each_other(capsys: pytest.CaptureFixture[str], run: str):
    assert "--out and --resume" in refused(capsys, ["train", "--resume", run, "--out", "x"])


# --- checkpoints


@pytest.mark.parametrize("command", [["train", "--resume"], ["sample", "--checkpoint"]])
def test_bad_checkpoints(capsys: pytest.CaptureFixture[str], run: str, command: list[str]):
    assert "there is no folder" in refused(capsys, [*command, "none"])
    assert "is a file" in refused(capsys, [*command, "names.txt"])
    Path("empty").mkdir()
    assert "holds no checkpoint" in refused(capsys, [*command, "empty"])
    shutil.copytree("run/checkpoints/step-000006", "foreign/checkpoints/step-000001")
    Path("foreign/checkpoints/step-000001/state.json").write_text(
        '{"format": "other"}', encoding="utf-8"
    )
    assert "not a checkpoint that this version" in refused(capsys, [*command, "foreign"])
    weights = Path(run, "checkpoints/step-000006/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4])
    err = refused(capsys, [*command, run])
    assert "is damaged: model.safetensors" in err and "step-000005" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "has taken 6 steps of 6: to go on, ask for more with --steps"),
        (["--steps", "3"], "has taken 6 steps of 3"),
        (["--steps", "9", "--lr", "0.5"], "--lr was 0.01, not 0.5"),
        (["--steps", "9", "--n-embd", "8"], "--n-embd was 4, not 8"),
        (["--steps", "9", "--dtype", "float32"], "--dtype was float64"),
        (["--steps", "9", "--data", "none.txt"], "there is no file"),
        (["--steps", "9", "--data", "other.txt"], "has changed since this run began"),
    ],
)
def test_bad_resumptions(
    capsys: pytest.CaptureFixture[str], run: str, options: list[str], says: str
):
    Path("other.txt").write_text("ann\nbob\ncarla\neve\n", encoding="utf-8")
    assert says in refused(capsys, ["train", "--resume", run, *options])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--prompt", "zoé"], "the character 'z' in 'zoé' is unknown to the tokenizer"),
        (["--prompt", "annabob"], "the prompt has 7 characters, the model writes 6"),
        (["--count", "0"], "--count must be at least 1"),
        (["--count", "-3"], "--count must be"),
        (["--temperature", "-1"], "--temperature must be"),
        (["--temperature", "nan"], "--temperature must be"),
        (["--seed", "-1"], "--seed must be"),
    ],
)
def test_bad_samples(capsys: pytest.CaptureFixture[str], run: str, options: list[str], says: str):
    assert says in refused(capsys, ["sample", "--checkpoint", run, *options])


def test_sample_needs_a_checkpoint(capsys: pytest.CaptureFixture[str]):
    assert "--checkpoint" in refused(capsys, ["sample"])


# --- a full disk


def no_space(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_from_the_start(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files.os, "fsync", no_space)
    assert "No space left on device" in refused(capsys, [*TRAIN, "--out", "full"])


@pytest.mark.parametrize("writes", [3, 6, 8, 9, 10])
def test_a_disk_that_fills_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, writes: int
):
    """After so many files have been written: in the middle of a checkpoint, or of the results."""
    write, done = files._write, [0]  # pyright: ignore[reportPrivateUsage]

    def filling(path: Path, content: bytes) -> None:
        done[0] += 1
        if done[0] > writes:
            path.write_bytes(content[: len(content) // 2])
            no_space()
        write(path, content)

    args = [*TRAIN, "--save-every", "3", "--out"]
    with monkeypatch.context() as full:
        full.setattr(files, "_write", filling)
        assert main([*args, "part"]) == 2
    err = capsys.readouterr().err
    assert "No space left on device" in err and err.count("\n") == 1
    assert not [p for p in tree() if ".tmp" in p]
    assert main(["sample", "--checkpoint", "part", "--count", "1"]) == 0
    if writes < 9:  # the rest can be made up for, exactly
        assert "chainrule train --resume part" in err
        assert main(["train", "--resume", "part"]) == 0
        assert main([*args, "whole"]) == 0
        assert Path("part/losses.csv").read_text(encoding="utf-8") == Path(
            "whole/losses.csv"
        ).read_text(encoding="utf-8")


# --- in a process of its own


def start(*args: str, **more: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONUNBUFFERED", None)  # as users have it
    return subprocess.Popen(  # type: ignore[call-overload]
        [sys.executable, "-m", "chainrule", *args],
        stdout=more.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE, text=True,
        env=environment, **more,
    )  # fmt: skip


def wait_for_a_step(process: subprocess.Popen[str]) -> None:
    """Until the first step is reported, and a little longer."""
    assert process.stdout is not None
    while not process.stdout.readline().startswith("step"):
        assert process.poll() is None
    time.sleep(0.3)


def test_files_that_may_not_grow(monkeypatch: pytest.MonkeyPatch):
    """The system refuses to write more than 2,000 bytes into a file: no checkpoint fits."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    # Python would leave bytecode of 2,000 bytes behind, for all processes to come
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    process = start(*TRAIN, "--out", "run", preexec_fn=limit)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and err.count("\n") == 1
    assert "run cannot be written to (File too large)" in err and not Path("run").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_output_that_takes_nothing(run: str):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        process = start("sample", "--checkpoint", run, stdout=full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and err == "chainrule: No space left on device.\n"


def test_a_reader_that_has_enough(run: str):
    process = start("sample", "--checkpoint", run, "--count", "30000")  # more than a pipe holds
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 141 and process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_says_how_to_go_on(sent: signal.Signals):
    args = [*TRAIN, "--steps", "1000000", "--save-every", "1000000", "--out", "run"]
    process = start(*args)
    wait_for_a_step(process)
    process.send_signal(sent)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + sent and err == ""
    assert "interrupted at step" in out and "chainrule train --resume run" in out
    taken = int(out.split("interrupted at step ")[1].split()[0])
    kept = sorted(p.name for p in Path("run/checkpoints").iterdir())
    assert taken > 1 and kept == ["step-000000", f"step-{taken:06d}"]
    assert len(Path("run/losses.csv").read_text(encoding="utf-8").splitlines()) == taken + 1
    assert main(["sample", "--checkpoint", "run", "--count", "1"]) == 0


def test_killed_outright_the_last_checkpoint_is_whole():
    args = [*TRAIN, "--steps", "1000000", "--save-every", "1", "--out", "run"]
    process = start(*args)
    wait_for_a_step(process)
    process.kill()
    process.communicate(timeout=120)
    assert main(["sample", "--checkpoint", "run", "--count", "1"]) == 0


# --- what is asked rightly


@pytest.mark.parametrize("args", [["--help"], ["train", "--help"], ["sample", "--help"]])
def test_help_has_examples(capsys: pytest.CaptureFixture[str], args: list[str]):
    with pytest.raises(SystemExit) as stop:
        main(args)
    out = capsys.readouterr().out
    assert stop.value.code == 0 and " ".join(["chainrule", *args[:-1]]) in out
    assert args == ["--help"] or "examples:" in out


def test_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"chainrule {chainrule.__version__}\n"
