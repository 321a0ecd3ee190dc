"""Ray Train: a backend that gives each of Ray's workers a place in a group.

Ray starts the processes, and starts all again when one is gone. Worker 0 serves a store at a free
port of its node, a new one for each attempt. Through Ray itself goes only the place of each worker.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chainrule.optional import require
from chainrule.parallel.membership import Membership

_train: Any = require("ray.train.backend", "parallel.RayConfig")
_BackendConfig: Any = _train.BackendConfig
_Backend: Any = _train.Backend


@dataclass
class RayConfig(_BackendConfig):  # pyright: ignore[reportUntypedBaseClass]
    """A `backend_config` for Ray's `DataParallelTrainer`: `parallel.group()` works in its workers.

    >>> trainer = DataParallelTrainer(                                       # doctest: +SKIP
    ...     train, backend_config=parallel.RayConfig(),
    ...     scaling_config=ScalingConfig(num_workers=4),
    ...     run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ... )
    """

    @property
    def backend_cls(self) -> Any:
        """What Ray calls when its workers have started."""
        return GroupBackend


class GroupBackend(_Backend):  # pyright: ignore[reportUntypedBaseClass]
    """Tells workers where they meet."""

    def on_training_start(self, worker_group: Any, backend_config: Any) -> None:
        """Put each worker's place into its environment."""
        contexts = [worker.distributed_context for worker in worker_group.get_workers()]
        first = [c.world_rank for c in contexts].index(0)
        store = worker_group.execute_single(first, _free_address)
        attempt = secrets.token_hex(8)
        done = [
            worker_group.execute_single_async(i, _settle, _place(c, store, attempt).variables())
            for i, c in enumerate(contexts)
        ]
        require("ray", "parallel.RayConfig").get(done)


def _place(context: Any, store: str, attempt: str) -> Membership:
    return Membership(
        context.world_rank, context.world_size, context.local_world_size, store, attempt=attempt
    )


def _free_address() -> str:
    """Where worker 0 will serve the store: its node, by the address that other nodes know."""
    host = require("ray.util", "parallel.RayConfig").get_node_ip_address()
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as free:
        free.bind((host, 0))
        return f"tcp:{host}:{free.getsockname()[1]}"


def _settle(variables: Mapping[str, str]) -> None:
    os.environ.update(variables)
