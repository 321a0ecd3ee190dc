"""Compiled code on disk: a second process that wants the same program compiles nothing.

An entry's name is a digest of all that the code depends on: the simplified program (ops with their
parameters, shapes, dtypes, constants, which input is updated with what), the source of this
compiler, LLVM, Python, NumPy, the processor. What is in an entry was made of exactly that, so it is
never out of date; it can only be superfluous, and goes when the folder has grown too large.

The folder is $CHAINRULE_CACHE_DIR, else `chainrule` in $XDG_CACHE_HOME or ~/.cache; where the first
of these is set to nothing, there is no cache. Entries are trusted as code is: whoever can write to
the folder decides what runs.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import EllipsisType
from typing import Any, final

import llvmlite.binding  # pyright: ignore[reportMissingTypeStubs]
import numpy as np

from chainrule.compile.llvm.machine import host
from chainrule.compile.terms.terms import Program, in_order
from chainrule.op import Op

llvm: Any = llvmlite.binding
LIMIT = 512 << 20
"""Bytes that a folder may hold; beyond, what was not used for longest is removed."""

_ENTRY, _PART = ".chainrule-code", ".chainrule-part"
_DIGEST = 32


# --- what code depends on, in words --------------------------------------------------------------


@final
class NamelessError(Exception):
    """Something in a program of which another process could not tell that it is the same."""


def word(x: Any) -> str:
    """`x` in a word that differs wherever anything that matters to compiled code differs.

    Raises NamelessError for functions and other things without a value.
    """
    kind, of = type(x).__name__, x  # `x` stays Any where `of` is narrowed
    match of:
        case None | bool() | int() | float() | complex() | str() | bytes() | EllipsisType():
            return f"{kind}:{x!r}"
        case np.dtype():
            return f"dtype:{x.name}{x.str}"
        case np.ndarray() | np.generic():
            return f"{kind}:{word(x.dtype)}{x.shape}{blake2b(x.tobytes()).hexdigest()}"
        case slice():
            return f"slice{word((x.start, x.stop, x.step))}"
        case tuple() | list():
            return f"{kind}({','.join([word(v) for v in x])})"
        case set() | frozenset():
            return f"{kind}({','.join(sorted([word(v) for v in x]))})"
        case dict():
            return f"{kind}({','.join(sorted([word(v) for v in x.items()]))})"
        case type():
            return f"class:{x.__module__}.{x.__qualname__}"
        case Op():
            make, given = x.__reduce__()
            return f"op:{make.__module__}.{make.__qualname__}{word(given)}"
        case Program():
            return f"program({';'.join(_program(x))})"
        case _ if is_dataclass(x):
            # by the custom of this house, what begins with _ is worked out from the others
            values = [getattr(x, f.name) for f in fields(x) if not f.name.startswith("_")]
            return f"{word(type(x))}{word(values)}"
        case _:
            raise NamelessError(f"a {kind}")


def _program(program: Program) -> Iterator[str]:
    """A program term by term, in which terms are numbers."""
    order = in_order(program.roots)
    number = {t: i for i, t in enumerate(order)}
    for t in order:
        of = word(t.op) if t.op is not None else f"{t.index}={word(t.value)}"
        yield f"{of}{[number[a] for a in t.args]}{word((t.shape, t.dtype))}"
    yield word([(t.index, t.shape, t.dtype) for t in program.inputs])
    yield f"{[number[t] for t in program.results]}"
    yield f"{[(i, number[t]) for i, t in program.updates]}"


@cache
def _sources() -> str:
    """A digest of the source of the compiler and of the ops."""
    digest = blake2b(digest_size=_DIGEST)
    root = Path(__file__).parents[2]
    for folder in ("compile", "ops"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def surroundings() -> str:
    """All that code depends on besides its program."""
    python = (sys.implementation.cache_tag, sys.abiflags, object.__basicsize__)
    versions = (llvmlite.__version__, llvm.llvm_version_info, np.__version__)
    return word((_sources(), python, versions, llvm.get_process_triple(), host()))


def name_of(program: Program) -> str | None:
    """The name of a program's entry here; None for one that another process cannot recognize."""
    try:
        text = f"{surroundings()}\n{word(program)}"
    except NamelessError:
        return None
    return blake2b(text.encode(), digest_size=20).hexdigest()


# --- the folder ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Folder:
    """Entries by name, of `limit` bytes altogether at most. Any number of processes may use it.

    A folder that cannot be read or written is an empty one; a damaged entry is none.
    """

    path: Path
    limit: int = LIMIT

    def get(self, name: str) -> bytes | None:
        """What was put there under that name, None if nothing was."""
        path = self.path / f"{name}{_ENTRY}"
        try:
            data = path.read_bytes()
        except OSError:
            return None
        with suppress(OSError):
            os.utime(path)  # used now: `_trim` goes by this
        digest, body = data[:_DIGEST], data[_DIGEST:]
        return body if _digest(body) == digest else None

    def put(self, name: str, body: bytes) -> None:
        """Keep `body` under that name."""
        with suppress(OSError):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(_PART, dir=self.path)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_digest(body) + body)
                Path(part).replace(self.path / f"{name}{_ENTRY}")  # at once, for whoever reads
            except BaseException:
                Path(part).unlink(missing_ok=True)
                raise
            self._trim()

    def _trim(self) -> None:
        """Remove what was not used for longest, until the rest is within the limit."""
        found = sorted(self._sizes(), reverse=True)
        total = 0
        for _, size, path in found:
            total += size
            if total > self.limit:
                with suppress(OSError):
                    path.unlink()

    def _sizes(self) -> Iterable[tuple[int, int, Path]]:
        """When each file of ours was last used, its size, its path; others are none of ours."""
        for entry in os.scandir(self.path):
            if entry.name.endswith((_ENTRY, _PART)):
                with suppress(OSError):  # another process removed it
                    stat = entry.stat()
                    yield stat.st_mtime_ns, stat.st_size, Path(entry.path)


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=_DIGEST).digest()


def folder() -> Folder | None:
    """The folder that the environment names; None where it says that there is none."""
    own = os.environ.get("CHAINRULE_CACHE_DIR")
    if own is not None:
        return Folder(Path(own)) if own else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Folder((Path(base) if base else Path.home() / ".cache") / "chainrule")
    except RuntimeError:  # nobody's home is known
        return None


# --- a program's entry ---------------------------------------------------------------------------


@final
class Entry:
    """Where what was made of a program is kept: any value that can be pickled.

    Its ops are not: of those that are in the program only their places are kept.
    """

    def __init__(self, program: Program) -> None:
        self._folder = folder()
        self._name = name_of(program) if self._folder is not None else None
        self._ops = list(dict.fromkeys([t.op for t in in_order(program.roots) if t.op is not None]))

    def get(self) -> Any | None:
        """What is kept, None if nothing is."""
        if self._folder is None or self._name is None:
            return None
        data = self._folder.get(self._name)
        return None if data is None else _Reader(data, self._ops).load()

    def put(self, made: Any) -> None:
        """Keep `made`, if it can be kept."""
        if self._folder is None or self._name is None:
            return
        out = io.BytesIO()
        try:
            _Writer(out, self._ops).dump(made)
        except (pickle.PicklingError, TypeError, AttributeError):
            return  # an op that the schedule brought in, and that has no value
        self._folder.put(self._name, out.getvalue())


@final
class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, ops: list[Op]) -> None:
        super().__init__(file, protocol=5)
        self._places = {op: i for i, op in enumerate(ops)}

    def persistent_id(self, obj: Any) -> int | None:
        return self._places.get(obj) if isinstance(obj, Op) else None


@final
class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, ops: list[Op]) -> None:
        super().__init__(io.BytesIO(data))
        self._ops: list[Any] = ops

    def persistent_load(self, pid: Any) -> Op:
        return self._ops[pid]
