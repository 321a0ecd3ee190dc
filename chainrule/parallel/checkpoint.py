"""Checkpoints: states of modules and optimizers, and plain things, in a folder that appears whole.

    arrays.safetensors   every array, by the path to it
    state.json           what the arrays belong to, numbers, strings, the SHA-256 of both files

A folder of checkpoints holds `step-000040` and so on, of which the newest two are there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from chainrule.engine.op import Array
from chainrule.errors import ConfigError, describe
from chainrule.files import strict_json
from chainrule.files.regular_files import read_regular
from chainrule.files.whole_folders import clean, remove_folder, write_folder
from chainrule.interop.safetensors_file import read as read_tensors
from chainrule.optional import require
from chainrule.parallel.plain_trees import decode, encode

FORMAT = "chainrule checkpoint 1"
ARRAYS, STATE = "arrays.safetensors", "state.json"
KEPT = 2
_STEP = re.compile(r"step-(\d{6,})")
Plain = tuple[dict[str, Any], dict[str, Array]]
"""By name, what `encode` makes of each thing; and all their arrays."""


def plain(things: Mapping[str, Any]) -> Plain:
    """Things as JSON and arrays: the state of what has one, others as they are."""
    arrays: dict[str, Array] = {}
    texts = {
        name: encode(x.state_dict() if _has_state(x) else x, name, arrays)
        for name, x in things.items()
    }
    return texts, arrays


def restore(saved: Plain, things: Mapping[str, Any]) -> dict[str, Any]:
    """Load the states into `things`, by name; what was saved besides is given back.

    Raises `ConfigError` if the state of a thing is missing, or another one's.
    """
    texts, arrays = saved
    odd = [name for name, x in things.items() if not _has_state(x)]
    if odd:
        raise ConfigError(
            f"{odd[0]!r} is {describe(things[odd[0]])}: states are loaded into modules, optimizers "
            "and what else has a state_dict"
        )
    missing = [name for name in things if name not in texts]
    if missing:
        raise ConfigError(
            f"no state of {missing[0]!r} was saved; there are {', '.join(map(repr, texts))}"
        )
    values = {name: decode(text, arrays) for name, text in texts.items()}
    for name, thing in things.items():
        thing.load_state_dict(values.pop(name))
    return values


def save(folder: Path | str, **things: Any) -> None:
    """Write modules, optimizers (whatever has a `state_dict`) and plain values into a new folder.

    Plain values are numbers, strings, arrays, tensors, and lists, tuples and dicts of them. The
    folder appears whole or not at all; raises `OSError` if it cannot be written.

    >>> import tempfile, chainrule as cr
    >>> model = cr.nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     cr.parallel.save(f"{place}/a", model=model, step=40, losses=[0.5, 0.25])
    ...     cr.parallel.load(f"{place}/a", model=model)
    {'step': 40, 'losses': [0.5, 0.25]}
    """
    texts, arrays = plain(things)
    data = require("safetensors.numpy", "a checkpoint").save(arrays)
    state = {"format": FORMAT, "state": texts}
    sums = {ARRAYS: _sha256(data), STATE: _sha256(_json(state))}
    write_folder(Path(folder), {ARRAYS: data, STATE: _json({"sha256": sums, **state})})


def load(folder: Path | str, **things: Any) -> dict[str, Any]:
    """Load what `save` wrote into `things`, each by its name; what else was saved is given back.

    Raises `ConfigError` for a folder that is damaged, is no checkpoint, or is one of other things.

    >>> import tempfile
    >>> model = nn.Linear(3, 2)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     cr.parallel.save(f"{place}/a", model=model, step=40)
    ...     print(cr.parallel.load(f"{place}/a", model=model))
    {'step': 40}
    """
    return restore(read(Path(folder)), things)


def read(folder: Path) -> Plain:
    """What a checkpoint holds, every byte checked."""
    try:
        state = strict_json.loads(read_regular(folder / STATE, strict_json.MOST))
        digest = hashlib.sha256()
        arrays = read_tensors(folder / ARRAYS, digest)
    except (OSError, ValueError) as cause:
        raise ConfigError(f"the checkpoint {folder} cannot be read: {cause!s:.200}") from cause
    if not isinstance(state, dict) or cast("Any", state).get("format") != FORMAT:
        raise ConfigError(f"{folder} is no checkpoint of this version of chainrule ({FORMAT!r})")
    said: dict[str, Any] = cast("Any", state).get("state", {})
    sums = {ARRAYS: digest.hexdigest(), STATE: _sha256(_json({"format": FORMAT, "state": said}))}
    if cast("Any", state).get("sha256") != sums:
        raise ConfigError(f"the checkpoint {folder} is damaged: its files are not of one moment")
    return said, {name: np.array(x) for name, x in arrays.items()}


def save_step(folder: Path, step: int, things: Mapping[str, Any]) -> None:
    """Write `step-000040` into a folder of checkpoints, and remove all but the newest."""
    save(folder / f"step-{step:06d}", **things, step=step)
    clean(folder)
    for _, old in steps(folder)[:-KEPT]:
        remove_folder(old)


def steps(folder: Path) -> list[tuple[int, Path]]:
    """The checkpoints in a folder, by step."""
    found = [(_STEP.fullmatch(p.name), p) for p in folder.iterdir()] if folder.is_dir() else []
    return sorted([(int(m.group(1)), p) for m, p in found if m])


def _has_state(x: Any) -> bool:
    return callable(getattr(x, "state_dict", None))


def _json(state: Any) -> bytes:
    return json.dumps(state, ensure_ascii=True, allow_nan=False, indent=1).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
