"""Checkpoints: everything that a run needs to go on as if it had never stopped.

A run keeps them in `checkpoints/step-000500` and so on. Each is a folder that appears whole, with

    model.safetensors      the weights, under the model's own names
    training.safetensors   the optimizer's moments (by weight), the losses so far
    state.json             settings, tokenizer, random state, and the SHA-256 of all three

so that weights and settings of different moments can never be taken for one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np

from chainrule.cli.files import CommandError
from chainrule.engine.op import Array
from chainrule.files import strict_json
from chainrule.files.regular_files import read_regular
from chainrule.files.whole_folders import remove_folder, set_aside, write_folder
from chainrule.interop.safetensors_file import read as read_tensors
from chainrule.optional import require

FORMAT = "chainrule training checkpoint 1"
MODEL, TRAINING, STATE = "model.safetensors", "training.safetensors", "state.json"
_STEP = re.compile(r"step-(\d{6,})")
_MOMENT = "moment/"
_T = TypeVar("_T")


@final
@dataclass(frozen=True)
class Checkpoint:
    """A run after `step` steps. `settings`, `tokenizer` and `random` are fit for JSON.

    `fingerprint` is the corpus's.

    `losses` (step,) is the loss of each step; `held_out` (n, 2) rows of step and held-out loss. All
    float64. `moments` are named by the optimizer.
    """

    step: int
    settings: Mapping[str, Any]
    tokenizer: Mapping[str, Any]
    fingerprint: str
    random: Any
    weights: Mapping[str, Array]
    moments: Mapping[str, Array]
    losses: Array
    held_out: Array

    def files(self) -> dict[str, bytes]:
        """The files of the folder, by name."""
        training = {_MOMENT + k: _plain(v) for k, v in self.moments.items()}
        training |= {"losses": _plain(self.losses), "held_out": _plain(self.held_out)}
        weights = {k: _plain(v) for k, v in self.weights.items()}
        save = require("safetensors.numpy", "a checkpoint").save
        model = save(weights)
        rest = save(training)
        state: dict[str, Any] = {
            "format": FORMAT,
            "step": self.step,
            "settings": self.settings,
            "tokenizer": self.tokenizer,
            "fingerprint": self.fingerprint,
            "random": self.random,
        }
        sums = {MODEL: _sha256(model), TRAINING: _sha256(rest), STATE: _sha256(_json(state))}
        return {MODEL: model, TRAINING: rest, STATE: _json({"sha256": sums, **state})}


def write(run: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint of the run in folder `run`; keep it and the one before, remove older ones.

    Raises `OSError` if it cannot be written; then those that were there are still there.
    """
    path = run / "checkpoints" / f"step-{checkpoint.step:06d}"
    write_folder(path, checkpoint.files())
    for _, old in _steps(run)[:-2]:
        remove_folder(old)
    return path


def find(given: Path) -> Path:
    """The checkpoint at `given`: the folder itself, or the newest of the run that it holds."""
    if not given.exists():
        raise CommandError(f"there is no folder {given}: give the folder of a run, or a checkpoint")
    if not given.is_dir():
        raise CommandError(f"{given} is a file: give the folder of a run, or a checkpoint in it")
    if (given / STATE).exists() or (given / MODEL).exists():
        return given
    steps = _steps(given)
    if not steps:
        raise CommandError(
            f"{given} holds no checkpoint of chainrule: give the folder of a run, in which "
            "there is a folder checkpoints"
        )
    return steps[-1][1]


def run_of(path: Path) -> Path:
    """The run that the checkpoint folder `path` belongs to: what `find` was given, say."""
    plain = len(path.parts) > 1 and ".." not in path.parts
    return (path if plain else path.resolve()).parent.parent


def put_later_aside(path: Path) -> list[Path]:
    """Set aside the checkpoints of the same run that are later than `path`; their new names."""
    steps = _steps(run_of(path))
    mine = [step for step, p in steps if p.name == path.name]
    return [set_aside(p) for step, p in steps if mine and step > mine[0]]


def load(path: Path) -> Checkpoint:
    """Read the checkpoint in the folder `path`; `CommandError` says what is wrong with it."""
    if not (path / STATE).exists():
        raise _foreign(path)
    state = _state(_read(path, STATE, lambda p: read_regular(p, strict_json.MOST)), path)
    sums = state.pop("sha256")
    if sums[STATE] != _sha256(_json(state)):
        raise _damage_error(path, f"{STATE} is not the file that was saved with it")
    weights, training = (_tensors(path, name, sums[name]) for name in (MODEL, TRAINING))
    try:
        losses, held_out = training.pop("losses"), training.pop("held_out")
    except KeyError as cause:
        raise _foreign(path) from cause
    if not all(name.startswith(_MOMENT) for name in training):
        raise _foreign(path)
    moments = {name.removeprefix(_MOMENT): x for name, x in training.items()}
    return Checkpoint(
        state["step"], state["settings"], state["tokenizer"], state["fingerprint"],
        state["random"], weights, moments, losses, held_out,
    )  # fmt: skip


def _tensors(path: Path, name: str, sha256: str) -> dict[str, Array]:
    """The arrays of a file of the checkpoint that has this digest."""
    digest = hashlib.sha256()
    arrays = _read(path, name, lambda p: read_tensors(p, digest))
    if digest.hexdigest() != sha256:
        raise _damage_error(path, f"{name} is not the file that was saved with it")
    return arrays


def _read(path: Path, name: str, read: Callable[[Path], _T]) -> _T:
    """What `read` makes of a file of the checkpoint."""
    try:
        return read(path / name)
    except OSError as cause:
        raise _damage_error(path, f"{name} cannot be read ({cause.strerror})") from cause
    except ValueError as cause:
        raise _damage_error(path, f"{name} makes no sense: {cause}") from cause


def _damage_error(path: Path, reason: str) -> CommandError:
    return CommandError(f"the checkpoint {path} is damaged: {reason}{_another(path)}")


def _state(raw: bytes, path: Path) -> dict[str, Any]:
    """The JSON object of a checkpoint of this format."""
    try:
        state = strict_json.loads(raw)
    except ValueError as cause:
        raise _damage_error(path, f"{STATE} {cause}") from cause
    match state:
        case {
            "format": format_,
            "step": int(step),
            "sha256": {
                "model.safetensors": str(),
                "training.safetensors": str(),
                "state.json": str(),
            },
            "settings": dict(),
            "tokenizer": dict(),
            "fingerprint": str(),
            "random": list(),
        } if format_ == FORMAT and type(step) is int and step >= 0:
            return state
        case _:
            raise _foreign(path)


def _foreign(path: Path) -> CommandError:
    return CommandError(
        f"{path} is not a checkpoint that this version of chainrule wrote ({FORMAT!r})"
    )


def _another(path: Path) -> str:
    """Where to go on from instead, if there is another checkpoint beside a damaged one."""
    names = [p for _, p in _steps(run_of(path))]
    before = names[: [p.name for p in names].index(path.name)] if path in names else []
    return f"; the one before it is {before[-1]}" if before else ""


def _steps(run: Path) -> list[tuple[int, Path]]:
    """The checkpoints of a run, by step."""
    folder = run / "checkpoints"
    found = [(_STEP.fullmatch(p.name), p) for p in folder.iterdir()] if folder.is_dir() else []
    return sorted([(int(m.group(1)), p) for m, p in found if m])


def _plain(array: Array) -> Array:
    """Contiguous and native, as the file needs it (a strided array would be saved scrambled)."""
    return np.ascontiguousarray(array)


def _json(state: Mapping[str, Any]) -> bytes:
    """The same bytes for the same state, also when it has been read back."""
    text = json.dumps(state, ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode("utf-8", "surrogatepass")  # names of files may hold any byte


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
