"""A run of Ray Train: `python ray_program.py STEPS FOLDER`; prints the result as JSON.

Checkpoints are chainrule's, reported to Ray; a worker that was killed is started again by Ray.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    from ray.train import get_checkpoint

    import chainrule as cr
    from chainrule import optim, parallel
    from tests.parallel.programs import Net, batches, digest, record_step, wait_before_the_end

    folder = Path(config["folder"])
    with parallel.group(micro_batches=4, timeout=60) as group:
        model = Net()
        optimizer = optim.AdamW(model.parameters(), lr=1e-2)
        found: dict[str, Any] = {"step": 0, "losses": []}
        if (saved := get_checkpoint()) is not None:
            with saved.as_directory() as place:
                found = parallel.load(place, model=model, optimizer=optimizer)
        group.broadcast(model, optimizer)
        losses = found["losses"]
        for step, batch in enumerate(batches(config["steps"])):
            if step < found["step"]:
                continue
            if step + 1 == config["steps"]:
                wait_before_the_end()
            for x, y in group.split(batch):
                loss = cr.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                group.add_gradients(model, weight=len(x), loss=loss)
            losses.append(group.average_gradients(model))
            optimizer.step()
            time.sleep(0.05)
            state = {"step": step + 1, "losses": losses, "model": model, "optimizer": optimizer}
            seconds = report_checkpoint(group, **state)
            record_step(folder, group.rank, step + 1)
            with (folder / "reports.txt").open("a", encoding="utf-8") as log:
                log.write(f"{seconds}\n")
        said = {"losses": losses, "digest": digest(model, optimizer)}
        (folder / f"{group.rank}.json").write_text(json.dumps(said), encoding="utf-8")


def report_checkpoint(group: Any, **state: Any) -> float:
    """Report the loss to Ray, with a checkpoint from the first worker; the seconds it took."""
    from ray.train import Checkpoint, report

    from chainrule import parallel

    with tempfile.TemporaryDirectory() as place:
        now = None
        if group.is_first():
            parallel.save(f"{place}/now", **state)
            now = Checkpoint.from_directory(f"{place}/now")
        start = time.monotonic()
        report({"loss": state["losses"][-1]}, checkpoint=now)
    return time.monotonic() - start


def main(steps: str, folder: str) -> None:
    """Start Ray here, train, and stop it."""
    import ray
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

    from chainrule import parallel

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        _temp_dir=tempfile.mkdtemp(prefix="ray", dir="/tmp"),
    )
    DataParallelTrainer(
        train,
        train_loop_config={"steps": int(steps), "folder": folder},
        backend_config=parallel.RayConfig(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            storage_path=folder,
            name="run",
            failure_config=FailureConfig(max_failures=30),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
