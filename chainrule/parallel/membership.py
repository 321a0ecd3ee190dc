"""A worker's place: its rank, how many workers there are, and where they meet.

Read from the environment of the process, which a launcher has set: ours (`chainrule train
--workers`, and Ray through `RayConfig`), or torchrun and whatever sets the same variables. Without
one there is one worker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from chainrule.errors import ConfigError

PREFIX = "CHAINRULE_PARALLEL_"
"""Of the variables that our own launchers set; torchrun's have the same names without it."""
NAMES = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


@final
@dataclass(frozen=True)
class Membership:
    """Worker `rank` of `size`, of which `local_size` run on this machine.

    They meet in a `store`: `file:PATH`, or `tcp:HOST:PORT`, which rank 0 serves unless the launcher
    does (`served`). Each `attempt` of a launcher has a name of its own. `parent` is the process
    without which the worker is an orphan, 0 if there is none.
    """

    rank: int = 0
    size: int = 1
    local_size: int = 1
    store: str = ""
    served: bool = False
    attempt: str = ""
    parent: int = 0

    def variables(self) -> dict[str, str]:
        """What a launcher of ours puts into the environment of this worker."""
        values = {
            "RANK": self.rank,
            "WORLD_SIZE": self.size,
            "LOCAL_WORLD_SIZE": self.local_size,
            "STORE": self.store,
            "SERVED": int(self.served),
            "ATTEMPT": self.attempt,
            "PARENT": self.parent,
        }
        return {PREFIX + name: str(value) for name, value in values.items()}


def membership(environ: Mapping[str, str] = os.environ) -> Membership:
    """The place of this process; raises `ConfigError` for an environment that makes no sense."""
    if PREFIX + "RANK" in environ:
        rank, size, local = _numbers(environ, PREFIX)
        store, attempt = environ.get(PREFIX + "STORE", ""), environ.get(PREFIX + "ATTEMPT", "")
        served = environ.get(PREFIX + "SERVED") == "1"
        parent = _number(environ, PREFIX + "PARENT", "0")
        return Membership(rank, size, local, store, served, attempt, parent)
    if "RANK" not in environ or "WORLD_SIZE" not in environ:
        return Membership()
    rank, size, local = _numbers(environ, "")
    missing = [n for n in ("MASTER_ADDR", "MASTER_PORT") if not environ.get(n)]
    if size > 1 and missing:
        raise ConfigError(
            f"the environment says that this is worker {rank} of {size}, but {missing[0]} is not "
            "set, so that they cannot meet: start them with torchrun"
        )
    store = f"tcp:{environ.get('MASTER_ADDR')}:{environ.get('MASTER_PORT')}"
    served = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    attempt = "/".join([environ.get(n, "") for n in names])
    parent = os.getppid() if "TORCHELASTIC_RUN_ID" in environ else 0
    return Membership(rank, size, local, store, served, attempt, parent)


def _numbers(environ: Mapping[str, str], prefix: str) -> tuple[int, int, int]:
    rank, size = (_number(environ, prefix + name) for name in NAMES[:2])
    local = _number(environ, prefix + NAMES[2], "1")
    if not 0 <= rank < size or not 1 <= local <= size:
        raise ConfigError(
            f"the environment says {prefix}RANK={rank} of {prefix}WORLD_SIZE={size} with "
            f"{prefix}LOCAL_WORLD_SIZE={local}: ranks are 0 to {size - 1}"
        )
    return rank, size, local


def _number(environ: Mapping[str, str], name: str, default: str = "") -> int:
    text = environ.get(name, default)
    if not text.isdecimal():
        raise ConfigError(f"the environment variable {name} is {text!r}, not a number")
    return int(text)
