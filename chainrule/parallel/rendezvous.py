"""How workers meet: in a store, where each says what it is, before they connect.

Worker 0 compares what all say and writes a verdict, so that another version, another setting or a
worker that never comes is one sentence on every worker, and costs each a constant number of reads.
Every attempt of a launcher has a part of the store of its own: what a killed attempt left there are
addresses of processes that are gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from chainrule.errors import ParallelError
from chainrule.optional import require
from chainrule.parallel.faults import Board
from chainrule.parallel.membership import Membership
from chainrule.parallel.wire import LostError, Wire
from chainrule.version import __version__

_FINE = "fine"
_NAMES = {"chainrule": "chainrule", "torch": "PyTorch", "numpy": "NumPy"}


def meet(place: Membership, settings: Mapping[str, Any], timeout: float) -> tuple[Wire, Board]:
    """Connect with the other workers; raises `ParallelError` on all if they do not fit together.

    `settings` have to be the same everywhere.
    """
    try:
        store = _own_part(_store(place, timeout), place)
        board = Board(store, place.rank, place.size, timeout)
        _compare(store, place, settings, timeout)
    except (RuntimeError, OSError) as cause:
        if isinstance(cause, ParallelError):
            raise
        raise ParallelError(
            f"worker {place.rank} of {place.size} cannot reach {place.store}, where the workers "
            f"meet ({' '.join(str(cause).split()):.200}): is worker 0 or its launcher running, and "
            "does the network let this machine connect to it?"
        ) from cause
    local = place.local_size == place.size
    try:
        return Wire(store, place.rank, place.size, timeout, local=local), board
    except LostError as cause:
        found = board.read(1.0) or board.write(
            f"worker {place.rank} of {place.size} cannot connect to the others ({cause!s:.200}): "
            "they listen on free ports, which the network between the machines has to let through"
        )
        raise ParallelError(found) from cause


def _store(place: Membership, timeout: float) -> Any:
    dist = require("torch.distributed", f"training on {place.size} workers")
    kind, _, where = place.store.partition(":")
    if kind == "file":
        return dist.FileStore(where, -1)
    host, _, port = where.rpartition(":")
    serves = place.rank == 0 and not place.served
    wait = timedelta(seconds=timeout)
    return dist.TCPStore(host, int(port), is_master=serves, timeout=wait, wait_for_workers=False)


def _own_part(store: Any, place: Membership) -> Any:
    """The part of this attempt; an attempt in which all had come is followed by a new one."""
    dist = require("torch.distributed", f"training on {place.size} workers")
    base = dist.PrefixStore(f"chainrule/{place.attempt}/{place.size}", store)
    generation = (base.add("came", 1) - 1) // place.size
    return dist.PrefixStore(str(generation), base)


def _compare(store: Any, place: Membership, settings: Mapping[str, Any], timeout: float) -> None:
    """Raise on every worker if versions or settings of any two differ."""
    versions = {
        "chainrule": __version__,
        "torch": str(require("torch", "training on several workers").__version__),
        "numpy": str(require("numpy", "training on several workers").__version__),
        **settings,
    }
    store.set(f"is/{place.rank}", json.dumps(versions))
    wait = timedelta(seconds=timeout)
    if place.rank == 0:
        store.set("verdict", _verdict(store, place, versions, wait))
    store.wait(["verdict"], wait)
    verdict = store.get("verdict").decode()
    if verdict != _FINE:
        raise ParallelError(verdict)


def _verdict(store: Any, place: Membership, mine: Mapping[str, Any], wait: timedelta) -> str:
    for rank in range(1, place.size):
        try:
            store.wait([f"is/{rank}"], wait)
        except RuntimeError:
            return f"worker {rank} of {place.size} did not come within {wait.total_seconds():g} s"
        theirs = json.loads(store.get(f"is/{rank}").decode())
        for name in {**mine, **theirs}:
            a, b = mine.get(name), theirs.get(name)
            if a != b:
                what = _NAMES.get(name, f"group({name}=...)")
                todo = "install" if name in _NAMES else "write"
                return f"worker 0 has {what} {a}, worker {rank} {b}: {todo} the same everywhere"
    return _FINE
