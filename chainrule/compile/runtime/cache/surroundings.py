"""What compiled code depends on beside its program: sources, versions, the processor.

To read 400 files and to load LLVM takes longer than to load most code. So both are done once. What
they say is remembered in the cache's folder. Its key tells whether anything has changed: the sizes
and times of all files, the start of the system, and what the system says of its processor.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.compile.runtime.cache.folder import folder
from chainrule.compile.target import Target

_DIGEST = 32
_ROOT = str(Path(__file__).parents[3])
FOLDERS = ("compile", "engine", "interop", "ops", "transforms")
"""All that is imported where something is traced and compiled, beside files of the package itself.
"""
_SETTLED = 2 * 10**9
"""Nanoseconds: a file that was changed less long ago may change again without another time."""

Stamp = tuple[Any, ...]


@cache
def here() -> Target:
    """This machine, as LLVM knows it."""
    return Target(**_llvm()[0])


def surroundings(target: Target) -> str:
    """All that code depends on beside its program."""
    python = (sys.implementation.cache_tag, sys.abiflags, object.__basicsize__)
    return repr((sources(), python, np.__version__, *_llvm()[1:], target))


def digest_of(around: str) -> str:
    """Surroundings in few letters."""
    return blake2b(around.encode(), digest_size=_DIGEST).hexdigest()


@cache
def sources() -> str:
    """A digest of the source of the compiler, and of what is traced."""
    stamps = sorted(files())
    latest = max([max(times) for _, _, *times, _ in stamps])
    if time.time_ns() - latest < _SETTLED:
        return digest_of_files(stamps)
    return _remembered("sources", tuple(stamps), lambda: digest_of_files(stamps))


def files() -> Iterator[Stamp]:
    """Path, size, times and number of each file that compiled code depends on."""
    folders = [_ROOT, *[f"{_ROOT}/{name}" for name in FOLDERS]]
    for path in folders:  # which becomes longer
        for entry in os.scandir(path):
            if entry.name.endswith(".py"):
                stat = entry.stat()
                yield entry.path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino
            elif path != _ROOT and entry.is_dir() and entry.name != "__pycache__":
                folders.append(entry.path)


def digest_of_files(stamps: Iterable[Stamp]) -> str:
    """A digest of what is in these files."""
    digest = blake2b(digest_size=_DIGEST)
    for path, *_ in stamps:
        digest.update(f"{path.removeprefix(_ROOT)}\n".encode() + Path(path).read_bytes())
    return digest.hexdigest()


@cache
def _llvm() -> list[Any]:
    """The fields of this machine's target, and the versions of llvmlite and of LLVM."""
    stamp = _llvm_stamp()
    found: Any = _ask_llvm() if stamp is None else _remembered("machine", stamp, _ask_llvm)
    if set(found[0]) != {f.name for f in fields(Target)}:  # an older one
        found = _ask_llvm()
    return found


def _ask_llvm() -> list[Any]:
    import llvmlite.binding

    from chainrule.compile.llvm.host_target import host

    llvm: Any = llvmlite.binding
    return [asdict(host()), llvmlite.__version__, list(llvm.llvm_version_info)]


def _llvm_stamp() -> Stamp | None:
    """What tells that LLVM and the processor are those of before; None if the system does not."""
    spec = find_spec("llvmlite")
    home = list(spec.submodule_search_locations or ()) if spec is not None else []
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")
        with Path("/proc/cpuinfo").open("rb") as file:
            first = file.read(1 << 13).partition(b"\n\n")[0].splitlines()
        stats = [
            (e.path, e.stat()) for p in home for d in (p, f"{p}/binding") for e in os.scandir(d)
        ]
    except OSError:
        return None
    processor = [line for line in first if not line.startswith(b"cpu MHz")]
    files = sorted([(path, s.st_size, s.st_mtime_ns, s.st_ino) for path, s in stats])
    return (start, processor, files) if files else None


def _remembered(kind: str, stamp: Stamp, find: Callable[[], Any]) -> Any:
    """What `find` gives, as it was under the same stamp."""
    name = f"{kind}-{blake2b(repr(stamp).encode(), digest_size=20).hexdigest()}"
    home = folder()
    body = None if home is None else home.get(name)
    if body is not None:
        return json.loads(body)
    found = find()
    if home is not None:
        home.put(name, json.dumps(found).encode())
    return found
