"""Ray Train: workers that are killed start again, and end with the same bits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.parallel.killing import apart, kill_at_random
from tests.parallel.running import ROOT, Nursery

QUICK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
}
"""Nothing goes out, nothing is counted, and a report does not wait for a poll of two seconds."""


@pytest.mark.parametrize(
    ("kills", "steps"),
    [(0, 5), *[pytest.param(*x, marks=pytest.mark.sweep) for x in ((1, 20), (20, 250))]],
)
def test_killed_workers_go_on_to_the_same_bits(
    workers: Nursery, tmp_path: Path, kills: int, steps: int
):
    pytest.importorskip("ray")
    (unbroken,) = workers.run(1, "train", str(steps))
    program = Path(__file__).with_name("ray_program.py")
    command = [sys.executable, str(program), str(steps), str(tmp_path)]
    with apart(command, tmp_path, **QUICK, PYTHONPATH=str(ROOT)) as running:
        delays = kill_at_random(running, tmp_path / "log.txt", kills, seed=11)
        running.finish()
    for rank in range(2):
        said = json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8"))
        assert said == {name: unbroken[name] for name in ("losses", "digest")}
    print("seconds from a kill to the next step:", [round(x, 1) for x in sorted(delays)])
    reports = (tmp_path / "reports.txt").read_text(encoding="utf-8").split()
    print("a report in ms:", round(1000 * sorted(map(float, reports))[len(reports) // 2], 1))
