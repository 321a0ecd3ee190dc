"""torchrun: workers that are killed start again, and end with the same bits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.parallel.killing import apart, kill_at_random
from tests.parallel.running import PROGRAMS, Nursery

TORCHRUN = [
    *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
    *("--nproc-per-node", "2", "--max-restarts", "30", "--monitor-interval", "0.1"),
]


@pytest.mark.parametrize(
    ("kills", "steps"), [(1, 30), pytest.param(20, 250, marks=pytest.mark.sweep)]
)
def test_killed_workers_go_on_to_the_same_bits(
    workers: Nursery, tmp_path: Path, kills: int, steps: int
):
    (unbroken,) = workers.run(1, "train", str(steps))
    folder = tmp_path / "run"
    command = [*TORCHRUN, str(PROGRAMS), "train", str(steps), "", str(folder)]
    with apart(command, tmp_path, PAUSE="0.05") as running:
        delays = kill_at_random(running, folder / "log.txt", kills, seed=7)
        out = running.finish()
    lines = out.replace('{"losses', '\n{"losses').splitlines()  # workers write beside each other
    told = [json.loads(line) for line in lines if line.startswith('{"losses')]
    assert len(told) == 2, out
    assert all(said == unbroken for said in told)
    print("seconds from a kill to the next step:", [round(x, 1) for x in sorted(delays)])


@pytest.mark.sweep
def test_a_fault_ends_the_run_with_its_sentence(tmp_path: Path):
    command = [*TORCHRUN[:-4], *("--max-restarts", "0"), str(PROGRAMS), "fault", "wider"]
    with apart(command, tmp_path) as running:
        code, out = running.wait()
    assert code != 0
    assert "a.weight is float32 (1000, 16) for worker 0 at" in out
