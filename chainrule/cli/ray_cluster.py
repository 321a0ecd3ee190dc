"""`chainrule train --ray`: the workers of a run in a Ray cluster.

Each does what the command does as a worker. Ray starts all of them again when one is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chainrule.cli.files import CommandError
from chainrule.optional import require

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, made for this run."""
RESTARTS = 3


def train(asked: Mapping[str, Any], workers: int, address: str) -> int:
    """Let `workers` in a cluster do what was `asked`; the exit code."""
    ray = require("ray", "--ray")
    train = require("ray.train", "--ray")
    trainer = require("ray.train.v2.api.data_parallel_trainer", "--ray").DataParallelTrainer
    config = require("chainrule.parallel.ray_backend", "--ray").RayConfig()
    try:
        ray.init(**_options(address))
    except (ConnectionError, ValueError, RuntimeError) as cause:
        reason = " ".join(str(cause).split())
        raise CommandError(f"there is no Ray cluster at {address} ({reason:.200})") from cause
    try:
        trainer(
            _work,
            train_loop_config=dict(asked),
            backend_config=config,
            scaling_config=train.ScalingConfig(num_workers=workers),
            run_config=train.RunConfig(
                failure_config=train.FailureConfig(max_failures=RESTARTS),
                storage_path=f"{asked['resume']}/ray",
            ),
        ).fit()
    except Exception as cause:  # Ray's own, of which those of workers are part
        reason = str(cause).strip().splitlines()
        raise CommandError(f"the workers failed: {reason[-1] if reason else cause!r}") from cause
    finally:
        ray.shutdown()
    return 0


def _options(address: str) -> dict[str, Any]:
    if address == LOCAL:
        return {"include_dashboard": False}
    return {"address": address}


def _work(asked: dict[str, Any]) -> None:
    """What each worker does."""
    # in Ray's process, which has not loaded it
    from chainrule.cli.console import PipedConsole
    from chainrule.cli.train import command

    kept = {name: value for name, value in asked.items() if value is not None}
    command(kept, PipedConsole(force_jupyter=False))
