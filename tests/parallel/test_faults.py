"""What goes wrong on one worker is one sentence on all, soon, and names worker, line, parameter."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from chainrule.errors import ConfigError
from chainrule.parallel.membership import Membership, membership
from tests.parallel.running import Nursery
from tests.sampling import sampled

SAYS = {
    "die": r"worker {last} of {size} is gone .*average_gradients at .*programs.py:\d+: what was",
    "hang": r"worker {last} of {size} did not come to average_gradients at .*programs.py:\d+ "
    r"\(call 3\) within 2 s, and hangs",
    "wider": r"a.weight is float32 \(1000, 16\) for worker {before} at .*programs.py:\d+, but "
    r"a.weight is float32 \(8, 1000\) for worker {last} at .*programs.py:\d+",
    "other call": r"worker {before} at .*programs.py:\d+ is in average_gradients \(call 3\), "
    r"worker {last} at .*programs.py:\d+ in all_reduce sum \(call 3\)",
    "fewer": r"unused is float32 \(3,\) for worker {before} at .*, but scale is float64 \(4,\) for "
    r"worker {last} at ",
    "wrong": r"worker {last} of {size} stopped: OSError: \[Errno 28\] No space left on device$",
    "interrupt": r"worker {last} of {size} stopped: it was interrupted$",
    "leave": r"worker {last} at .*programs.py:\d+ in the end of the group \(call 3\)",
}
ENDS = {"die": -9, "hang": -9, "wrong": 1, "interrupt": 1}
"""How the worker itself ends that makes the mistake; others say the same as all."""


@sampled(one_in=8)
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("kind", SAYS)
def test_all_say_what_one_did(workers: Nursery, kind: str, size: int):
    patience = "12" if kind == "hang" else "60"
    results = workers.run(size, "fault", kind, ends=False, PATIENCE=patience)
    before = size - 2 if size % 2 == 0 else "[01]"  # of three, two meet the last one
    says = SAYS[kind].format(last=size - 1, before=before, size=size)
    *others, last = results
    if kind in ENDS:
        assert last.code == ENDS[kind], last.stderr
    else:
        others.append(last)
    for result in others:
        assert result.code == 3, result.stderr
        assert re.search(says, result.error), result.error
        assert result.error.startswith(("ParallelError: ", "OtherWorkerError: "))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("version", "worker 0 has chainrule .*, worker 1 0.0.7: install the same everywhere"),
        ("setting", r"worker 0 has group\(micro_batches=...\) 8, worker 1 4: write the same"),
    ],
)
def test_workers_that_do_not_fit_together(workers: Nursery, what: str, says: str):
    for result in workers.run(2, "differing", what, ends=False):
        assert re.search(says, result.error)


def test_a_worker_that_never_comes(workers: Nursery):
    first, second = workers.run(2, "absent", ends=False)
    assert "worker 1 of 2 did not come within 2 s" in first.error
    assert second.said == "elsewhere"


def test_folders_that_are_not_shared(workers: Nursery, tmp_path: Path):
    for result in workers.run(2, "folders", str(tmp_path), ends=False):
        assert re.search(r"worker 0 finds step 0 in .*, another worker a later one", result.error)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is not set"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "ranks are 0 to 1"),
        ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "3"}, "LOCAL_WORLD_SIZE=3"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is 'x', not a number"),
    ],
)
def test_an_environment_that_makes_no_sense(variables: dict[str, str], says: str):
    with pytest.raises(ConfigError, match=says):
        membership(variables)


def test_torchrun_s_variables_are_read():
    variables = {
        "RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a.b",
        "MASTER_PORT": "29400", "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    place = membership(variables)
    assert place == Membership(3, 4, 2, "tcp:a.b:29400", True, "x/2", os.getppid())
    assert membership(Membership(1, 2, 2, "file:/x", False, "a", 7).variables()) == Membership(
        1, 2, 2, "file:/x", False, "a", 7
    )
    assert membership({}) == Membership()
