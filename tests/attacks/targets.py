"""What is attacked: each target makes something good once, then spoils copies of it.

`spoiled(rng)` gives a word for what was done, and what to run then: a function that returns an exit
code, as the command line does.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import shutil
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.cli import checkpoint as checkpoints
from chainrule.cli.main import main
from chainrule.compile.graph.terms import Program, Terms
from chainrule.compile.llvm.host_target import host
from chainrule.compile.runtime.cache import entry as cache_entry
from chainrule.compile.runtime.cache import folder as cache_folder
from chainrule.compile.runtime.cache import programs as cache
from chainrule.compile.runtime.cache import surroundings
from chainrule.compile.runtime.native_program import Native
from chainrule.ops import elementwise as ew
from chainrule.ops.linalg.solving import Cholesky
from tests.attacks import odd_files
from tests.attacks.mutations import changed, flipped, replaced, resized, tensors, text_of

Run = Callable[[], int]
SMALL = ["--n-embd", "4", "--n-head", "2", "--block-size", "6", "--engine", "tensor"]


class Hostile:
    """What runs code when it is loaded as a pickle."""

    def __init__(self, canary: Path) -> None:
        self._canary = str(canary)

    def __reduce__(self) -> Any:
        return os.mkdir, (self._canary,)


class Target(ABC):
    """Something in `folder`, of which copies are spoiled; nothing may make `canary`."""

    def __init__(self, folder: Path) -> None:
        self.good, self.bad, self.canary = folder / "good", folder / "bad", folder / "canary"
        self.hostile = pickle.dumps(Hostile(self.canary))
        self.good.mkdir(parents=True)
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what is good."""

    @abstractmethod
    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        """Spoil a copy."""

    def copy(self) -> None:
        """Let `bad` be as `good` is."""
        for folder in (self.bad, *self.bad.rglob("*")):
            if folder.is_dir() and not folder.is_symlink():
                folder.chmod(0o700)  # it may be one that nobody may read
        if self.bad.is_symlink() or not self.bad.is_dir():
            self.bad.unlink(missing_ok=True)
        shutil.rmtree(self.bad, ignore_errors=True)
        shutil.copytree(self.good, self.bad)


# --- checkpoints ---------------------------------------------------------------------------------


class Checkpoints(Target):
    """A run of `chainrule train`."""

    def prepare(self) -> None:
        names = self.good / "names.txt"
        names.write_text("ann\nbob\ncarla\ndan\n", encoding="utf-8")
        run = ["train", "--data", str(names), *SMALL, "--steps", "3", "--save-every", "1"]
        assert main([*run, "--holdout", "0.3", "--out", str(self.good / "run")]) == 0

    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        self.copy()
        folder = self.bad / "run" / "checkpoints" / "step-000003"
        kind = rng.choice(("state", "state", "state", "arrays", "arrays", "arrays", "bytes", "odd"))
        word = getattr(self, f"_{kind}")(rng, folder)
        command = ["sample", "--count", "1", "--checkpoint"]
        if rng.random() < 0.6:
            data = str(self.bad / "names.txt")
            command = ["train", "--steps", "5", "--data", data, "--resume"]
        return f"{command[0]}, {kind}: {word}", lambda: main([*command, str(self.bad / "run")])

    def _state(self, rng: random.Random, folder: Path) -> str:
        state = json.loads((folder / "state.json").read_bytes())
        value, word = changed(rng, state)
        text, how = text_of(rng, sign(folder, value))
        (folder / "state.json").write_bytes(text)
        return f"{word} ({how})"

    def _arrays(self, rng: random.Random, folder: Path) -> str:
        path = folder / rng.choice(("model.safetensors", "training.safetensors"))
        raw, word = tensors(rng, path.read_bytes())
        path.write_bytes(raw)
        state = folder / "state.json"
        signed = sign(folder, json.loads(state.read_bytes()))
        state.write_text(json.dumps(signed), encoding="utf-8")
        return f"{path.name} {word}"

    def _bytes(self, rng: random.Random, folder: Path) -> str:
        path = rng.choice(sorted(folder.iterdir()))
        how = rng.choice((flipped, resized, lambda rng, raw: replaced(rng, raw, self.hostile)))
        raw, word = how(rng, path.read_bytes())
        path.write_bytes(raw)
        return f"{path.name} {word}"

    def _odd(self, rng: random.Random, folder: Path) -> str:
        path = rng.choice([*sorted(folder.iterdir()), folder])
        return f"{path.name} {odd_files.put(rng, path)}"


def sign(folder: Path, state: Any) -> Any:
    """A state with digests that agree with the files and with itself, so that it is believed."""
    if not isinstance(state, dict) or not isinstance(state.get("sha256"), dict):
        return state
    rest = {k: v for k, v in state.items() if k != "sha256"}
    sums = {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("*.safetensors")
    }
    try:
        text = vars(checkpoints)["_json"](rest)
    except ValueError:  # NaN: nothing agrees with it
        text = b""
    sums["state.json"] = hashlib.sha256(text).hexdigest()
    return {"sha256": {**state["sha256"], **sums}, **rest}


# --- the cache -----------------------------------------------------------------------------------

X = np.linspace(-1, 2, 9).reshape(3, 3) + 3 * np.eye(3)


def program(shift: float) -> Program:
    """sin(x) + shift, and the Cholesky factor of x: loops, a constant, an op in its eager form."""
    terms = Terms()
    x = terms.input(0, (3, 3), np.float64)
    y = terms.op(ew.add, [terms.op(ew.sin, [x]), terms.constant(np.full(3, shift))])
    return Program((x,), (y, terms.op(Cholesky(), [x])))


def right(native: Native) -> bool:
    """Whether it computes what `program(2.5)` says."""
    y, root = native([X])
    return np.allclose(y, np.sin(X) + 2.5) and np.allclose(root, np.linalg.cholesky(X))


class Cache(Target):
    """A folder of compiled code with entries of two programs."""

    def prepare(self) -> None:
        self.good.chmod(0o700)
        surroundings.surroundings(surroundings.here())  # noted elsewhere
        os.environ["CHAINRULE_CACHE_DIR"] = str(self.good)
        os.environ["XDG_CONFIG_HOME"] = str(self.good.parent)
        for shift in (2.5, 3.5):
            Native(program(shift))
        assert len(list(self.good.iterdir())) == 2
        self.name = str(cache.name_of(program(2.5), host()))

    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        self.copy()
        os.environ["CHAINRULE_CACHE_DIR"] = str(self.bad)
        entry = self.bad / f"{self.name}.chainrule-code"
        word = getattr(self, "_" + rng.choice(("bytes", "bytes", "other", "odd", "open")))(
            rng, entry
        )

        def run() -> int:
            return 0 if right(Native(program(2.5))) else 3

        return word, run

    def _bytes(self, rng: random.Random, entry: Path) -> str:
        how = rng.choice((flipped, resized, lambda rng, raw: replaced(rng, raw, self.hostile)))
        raw, word = how(rng, entry.read_bytes())
        entry.write_bytes(raw)
        return word

    def _other(self, rng: random.Random, entry: Path) -> str:
        (other,) = [p for p in self.bad.iterdir() if p != entry]
        other.replace(entry)
        return "the entry of another program"

    def _odd(self, rng: random.Random, entry: Path) -> str:
        path = rng.choice((entry, entry, self.bad))
        return f"{path.name} {odd_files.put(rng, path)}"

    def _open(self, rng: random.Random, entry: Path) -> str:
        path, mode = rng.choice((entry, self.bad)), rng.choice((0o777, 0o770, 0o722, 0o702))
        entry.write_bytes(self.hostile)
        path.chmod(mode)
        return f"{path.name} has the mode {mode:o}"


class SignedEntries(Cache):
    """Entries that are signed with the user's key and hold something else: they are only read."""

    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        entry = cache.Entry(program(2.5), host())
        label = vars(entry)["_label"]
        body = cache_folder.Folder(self.good).get(self.name)
        assert body is not None
        raw, word = self._changed(rng, body)

        def run() -> int:
            try:
                cache_entry.read(raw, program(2.5), label)
            except cache_entry.MalformedError:
                return 0
            return 0

        return word, run

    def _changed(self, rng: random.Random, body: bytes) -> tuple[bytes, str]:
        sizes = [int.from_bytes(body[i : i + 8], "little") for i in (0, 8, 16)]
        text, rest = body[24 : 24 + sizes[0]], body[24 + sizes[0] :]
        how = rng.choice(("text", "text", "text", "text", "sizes", "bytes", "other"))
        if how == "bytes":
            return flipped(rng, body)
        if how == "other":
            return replaced(rng, body, self.hostile)
        if how == "sizes":
            sizes[rng.randrange(3)] = rng.choice((0, 1, 2**31, 2**60, 2**64 - 1, sizes[0] + 1))
            word = f"sizes {sizes}"
        else:
            value, word = changed(rng, json.loads(text))
            text, more = text_of(rng, value)
            sizes[0], word = len(text), f"{word} ({more})"
        return b"".join([n.to_bytes(8, "little") for n in sizes]) + text + rest, word


# --- other files ---------------------------------------------------------------------------------


class Weights(Target):
    """A file for `load_file`."""

    def prepare(self) -> None:
        arrays = {"w": np.ones((3, 4)), "b": np.arange(5, dtype=np.float32), "n": np.zeros((0, 2))}
        cr.save_file({k: cr.asarray(v) for k, v in arrays.items()}, self.good / "w.safetensors")

    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        self.copy()
        path = self.bad / "w.safetensors"
        if rng.random() < 0.15:
            word = odd_files.put(rng, path)
        else:
            raw, word = tensors(rng, path.read_bytes())
            path.write_bytes(raw)

        def run() -> int:
            try:
                cr.load_file(path)
            except (cr.ChainruleError, OSError) as error:
                os.write(2, f"chainrule: {error}\n".encode("utf-8", "backslashreplace"))
                return 2
            return 0

        return word, run


class Data(Target):
    """A text for `chainrule train --data`."""

    def prepare(self) -> None:
        text = "ann\nbob\ncarla\nzoë\n\n  dan \n"
        (self.good / "names.txt").write_text(text, encoding="utf-8")

    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        self.copy()
        path = self.bad / "names.txt"
        raw, word = self._text(rng, path.read_bytes())
        path.write_bytes(raw)
        if rng.random() < 0.15:
            word = odd_files.put(rng, path)
        command = ["train", "--data", str(path), *SMALL, "--steps", "2", "--out"]
        return word, lambda: main([*command, str(self.bad / "run")])

    def _text(self, rng: random.Random, raw: bytes) -> tuple[bytes, str]:
        letters = "".join([chr(rng.choice((0x61, 0x2028, 0x202E, 0x1F600, 0x85, 0x0D, 0x0B, 0x301)))
                           for _ in range(200)])  # fmt: skip
        texts = {
            "one long line": b"a" * 1_000_000 + b"\nb\n",
            "many lines": b"a\n" * 20_000,
            "separators": "\n".join([letters, letters[::-1]]).encode(),
            "a mark": b"\xef\xbb\xbfann\nbob\n",
            "returns": b"ann\r\nbob\rcarl\n",
            "surrogates": b"ann\n\xed\xa0\x80\nbob\n",
            "many letters": "\n".join(map(chr, range(0x4E00, 0x4E00 + 3000))).encode(),
            "utf-16": "ann\nbob\n".encode("utf-16"),
            "blank": b" \n\t\n" * 50,
            "late zero": b"ann\n" * 300_000 + b"\0",
        }
        how = rng.choice([*texts, "bytes", "bytes", "size", "other"])
        if how in texts:
            return texts[how], how
        if how == "other":
            return replaced(rng, raw, self.hostile)
        return flipped(rng, raw) if how == "bytes" else resized(rng, raw)


# --- what must be noticed ------------------------------------------------------------------------


class Planted(Target):
    """What attacks look for, one after the other: so that it is known to be seen."""

    def prepare(self) -> None:
        self._left = [
            ("it waits", lambda: (signal.alarm(1), signal.pause())),
            ("it crashes", lambda: os.kill(os.getpid(), signal.SIGILL)),
            ("a traceback", lambda: 1 // 0),
            ("a gibibyte", lambda: np.empty(1 << 30)),
            ("code ran", lambda: pickle.loads(self.hostile)),
            ("another exit code", lambda: 3),
            ("no sentence", lambda: os.write(2, b"chainrule: no.\nand more\n") and 2),
        ]

    def spoiled(self, rng: random.Random) -> tuple[str, Run]:
        word, run = self._left.pop(0)
        return word, lambda: int(run() or 0)  # type: ignore[arg-type, call-overload]


TARGETS: dict[str, type[Target]] = {
    "checkpoints": Checkpoints, "cache": Cache, "signed": SignedEntries, "weights": Weights,
    "data": Data, "planted": Planted,
}  # fmt: skip
