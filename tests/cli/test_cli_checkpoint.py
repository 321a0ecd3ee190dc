"""Files that are whole or absent; checkpoints that are exact, or refused."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as save_tensors

from chainrule.cli import checkpoint as checkpoints
from chainrule.cli.checkpoint import Checkpoint
from chainrule.cli.files import CommandError, empty_folder, fresh_folder
from chainrule.files.whole_folders import set_aside, write_file, write_folder

RNG = np.random.default_rng(1)
WEIGHTS = {"w": RNG.normal(size=(3, 4)).astype(np.float32), "b": RNG.normal(size=5)}


def checkpoint(step: int = 7) -> Checkpoint:
    return Checkpoint(
        step=step,
        settings={"lr": 0.1 + 0.2, "data": "ž"},
        tokenizer={"kind": "characters", "characters": "abž"},
        fingerprint="f",
        random=[3, [1, 2**32 - 1], 0.1234567890123456789],
        weights=WEIGHTS,
        moments={"w/exp_avg": RNG.normal(size=(3, 4))},
        losses=RNG.normal(size=step),
        held_out=np.array([[2.0, 1.5]]),
    )


def no_space(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder: Path) -> list[str]:
    return sorted([p.name for p in folder.iterdir()])


# --- files


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "x"
    write_file(path, b"old")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["x"]


def test_a_folder_that_cannot_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path / "x", {"a": b"1"})
    assert names(tmp_path) == []


def test_a_folder_appears_only_when_its_files_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[list[str]] = []
    rename = Path.rename

    def spy(self: Path, target: Path) -> Path:
        seen.append(sorted(p.name for p in self.iterdir()))
        assert not target.exists()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", spy)
    write_folder(tmp_path / "x", {"a": b"1", "b": b"2"})
    assert seen == [["a", "b"]] and names(tmp_path) == ["x"]


def test_a_folder_that_is_replaced_is_set_aside(tmp_path: Path):
    for content in (b"1", b"2", b"3"):
        write_folder(tmp_path / "x", {"a": content})
    contents = {p.name: (p / "a").read_bytes() for p in tmp_path.iterdir()}
    assert contents == {"x": b"3", "x.aside": b"1", "x.aside-2": b"2"}
    assert set_aside(tmp_path / "x").name == "x.aside-3"


def test_fresh_folders_never_meet(tmp_path: Path):
    names = [fresh_folder(tmp_path / "deep" / "run").name for _ in range(3)]
    assert names == ["run", "run-2", "run-3"]


def test_a_folder_with_something_in_it_is_not_taken(tmp_path: Path):
    assert empty_folder(tmp_path / "new") == tmp_path / "new" == empty_folder(tmp_path / "new")
    (tmp_path / "new" / "x").touch()
    with pytest.raises(CommandError, match=r"not empty .* --out, .* --resume"):
        empty_folder(tmp_path / "new")
    with pytest.raises(CommandError, match="is a file"):
        empty_folder(tmp_path / "new" / "x")
    with pytest.raises(CommandError, match="cannot be made"):
        empty_folder(tmp_path / "new" / "x" / "y")


# --- checkpoints


def same(a: Checkpoint, b: Checkpoint) -> bool:
    def arrays(c: Checkpoint) -> dict[str, Any]:
        return {**c.weights, **c.moments, "losses": c.losses, "held_out": c.held_out}

    x, y = arrays(a), arrays(b)
    return (
        (a.step, a.settings, a.tokenizer, a.fingerprint, a.random)
        == (b.step, b.settings, b.tokenizer, b.fingerprint, b.random)
        and x.keys() == y.keys()
        and all(x[k].dtype == y[k].dtype and np.array_equal(x[k], y[k]) for k in x)
    )


def test_what_is_written_is_read_back_exactly(tmp_path: Path):
    c = checkpoint()
    path = checkpoints.write(tmp_path, c)
    assert path == tmp_path / "checkpoints" / "step-000007"
    assert same(checkpoints.load(path), c) and not same(checkpoint(8), c)


def test_strided_weights_are_saved_as_they_read(tmp_path: Path):
    w = np.arange(12.0).reshape(3, 4)
    saved = replace(checkpoint(), weights={"t": w.T, "s": w[:, ::2]})
    loaded = checkpoints.load(checkpoints.write(tmp_path, saved)).weights
    assert np.array_equal(loaded["t"], w.T) and np.array_equal(loaded["s"], w[:, ::2])


def test_two_checkpoints_are_kept_and_the_newest_is_found(tmp_path: Path):
    for step in (1, 999_999, 1_000_000):
        checkpoints.write(
            tmp_path, checkpoint(1) if step == 1 else replace(checkpoint(), step=step)
        )
    found = names(tmp_path / "checkpoints")
    assert found == ["step-1000000", "step-999999"]
    assert checkpoints.find(tmp_path).name == "step-1000000"
    older = tmp_path / "checkpoints" / "step-999999"
    assert checkpoints.find(older) == older and checkpoints.run_of(older) == tmp_path


def test_going_back_sets_what_came_after_aside(tmp_path: Path):
    paths = [checkpoints.write(tmp_path, checkpoint(step)) for step in (3, 5)]
    assert [p.name for p in checkpoints.put_later_aside(paths[0])] == ["step-000005.aside"]
    assert checkpoints.find(tmp_path) == paths[0]
    assert checkpoints.put_later_aside(paths[0]) == []


def test_a_failed_write_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = checkpoints.write(tmp_path, checkpoint(3))
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        checkpoints.write(tmp_path, checkpoint(5))
    assert names(tmp_path / "checkpoints") == ["step-000003"]
    assert checkpoints.load(checkpoints.find(tmp_path)).step == 3 and first.is_dir()


@pytest.mark.parametrize("name", ["model.safetensors", "training.safetensors", "state.json"])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "remove"])
def test_every_damage_is_noticed(tmp_path: Path, name: str, harm: str):
    checkpoints.write(tmp_path, checkpoint(3))
    path = checkpoints.write(tmp_path, checkpoint(5)) / name
    raw = path.read_bytes()
    if harm == "remove":
        path.unlink()
    elif harm == "flip":
        place = raw.index(b"0.3") if name == "state.json" else len(raw) - 9
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
    else:
        path.write_bytes(raw[: len(raw) // 2] if harm == "cut" else b"")
    with pytest.raises(CommandError, match=r"damaged|not a checkpoint") as error:
        checkpoints.load(checkpoints.find(tmp_path))
    if not (name == "state.json" and harm == "remove"):
        assert "one before it is" in str(error.value) and "step-000003" in str(error.value)


def test_weights_of_another_moment_are_noticed(tmp_path: Path):
    a, b = (checkpoints.write(tmp_path, checkpoint(step)) for step in (3, 5))
    (a / "training.safetensors").rename(b / "training.safetensors")
    with pytest.raises(CommandError, match=r"training\.safetensors is not the file that was saved"):
        checkpoints.load(b)


@pytest.mark.parametrize(
    "state", [b"{}", b"[]", b"3", b'{"format": "other 1"}', b'{"model_type": "gpt2"}']
)
def test_foreign_checkpoints_are_refused(tmp_path: Path, state: bytes):
    (tmp_path / "model.safetensors").write_bytes(save_tensors(WEIGHTS))
    with pytest.raises(CommandError, match="not a checkpoint that this version"):
        checkpoints.load(checkpoints.find(tmp_path))
    (tmp_path / "state.json").write_bytes(state)
    (tmp_path / "training.safetensors").write_bytes(b"")
    with pytest.raises(CommandError, match="not a checkpoint that this version"):
        checkpoints.load(checkpoints.find(tmp_path))


def test_places_without_a_checkpoint_are_refused(tmp_path: Path):
    with pytest.raises(CommandError, match="no folder"):
        checkpoints.find(tmp_path / "none")
    with pytest.raises(CommandError, match="holds no checkpoint"):
        checkpoints.find(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(CommandError, match="is a file"):
        checkpoints.find(tmp_path / "file")


def test_the_state_is_plain_json(tmp_path: Path):
    state = json.loads((checkpoints.write(tmp_path, checkpoint()) / "state.json").read_bytes())
    assert state["settings"] == {"lr": 0.1 + 0.2, "data": "ž"} and state["step"] == 7
