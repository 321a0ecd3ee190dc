"""Entries of the cache for kernels that are known by name: nothing is traced to find one.

An entry says which program a function has become, and where that gets its inputs and sizes from.
The program has an entry of its own (see `programs.py`). A function of this package is determined by
its name and the sources that `surroundings.py` reads, and so is its trace.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from hashlib import blake2b
from typing import Any, final

from chainrule.compile.runtime.cache import entry as entry_form
from chainrule.compile.runtime.cache.checked_json import (
    MalformedError,
    number,
    record,
    sequence,
    word,
)
from chainrule.compile.runtime.cache.folder import folder
from chainrule.compile.runtime.cache.surroundings import digest_of, here, surroundings
from chainrule.compile.runtime.loaded_program import Loaded


@final
@dataclass(frozen=True, slots=True)
class KernelEntry:
    """A kernel in words."""

    program: str
    """The name of its program's entry."""
    args: Sequence[int]
    """Which arrays are the program's inputs."""
    places: Sequence[tuple[int, int]]
    """Input and axis of each size."""
    checks: Sequence[str]
    """As of a `Native`."""

    def load(self) -> Loaded | None:
        """The program, None if it is not kept."""
        home = folder()
        body = None if home is None else home.get(self.program)
        if body is None:
            return None
        try:
            made = entry_form.read(body, None, (self.program, digest_of(surroundings(here()))))
        except MalformedError:
            return None
        return Loaded(made, self.checks)


def get(name: str) -> KernelEntry | None:
    """The kernel of that name, None if none is kept."""
    home = folder()
    body = None if home is None else home.get(_file(name))
    try:
        return None if body is None else _read(json.loads(body))
    except (ValueError, RecursionError):
        return None


def put(name: str, entry: KernelEntry, kernel: Loaded) -> None:
    """Keep it, unless its results are not what their memory says, or ops of it run in Python."""
    home, layout = folder(), kernel.layout
    plain = not kernel.hosts and entry_form.results_of(layout.objects) == layout.results
    if home is not None and plain:
        home.put(_file(name), json.dumps(asdict(entry)).encode())


def _file(name: str) -> str:
    text = f"{surroundings(here())}\n{name}"
    return f"kernel-{blake2b(text.encode(), digest_size=20).hexdigest()}"


def _read(x: Any) -> KernelEntry:
    fields = record(x, [f.name for f in dataclass_fields(KernelEntry)])
    args = [number(n) for n in sequence(fields["args"])]
    places = [sequence(p, 2) for p in sequence(fields["places"])]
    if any(number(i) >= len(args) for i, _ in places):
        raise MalformedError("an input that there is not")
    checks = [word(w) for w in sequence(fields["checks"])]
    return KernelEntry(word(fields["program"]), args, [(i, number(a)) for i, a in places], checks)
