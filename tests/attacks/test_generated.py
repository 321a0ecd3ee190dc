"""Mad checkpoints, cache entries, weights and texts: one sentence, or what is right.

Never a traceback, a wait, a gibibyte, or code that a file brought. `make fuzz` tries thousands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="attacks run in forked children")
ROOT = Path(__file__).parents[2]
TARGETS = ("checkpoints", "cache", "signed", "weights", "data")
SEED = int(os.environ.get("CHAINRULE_FUZZ_SEED", "0"))
GIB = 1 << 30


def attacked(name: str, first: int, count: int, folder: Path) -> list[dict[str, Any]]:
    """How so many spoiled copies of a target fared."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    what = [name, str(SEED), str(first), str(count), str(folder / name)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.attacks.worker", *what],
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def faults(case: dict[str, Any]) -> list[str]:
    """What is wrong with how a case ended."""
    code, said, name = case["code"], case["said"], case["case"].split()[0]
    found = {
        "it waits": code == -14,
        "it crashes": code < 0 and code != -14,
        "a traceback": "Traceback" in said or code == 99,
        "a gibibyte": case["grown"] > GIB or "not enough memory" in said or "MemoryError" in said,
        "code ran": case["ran"],
        "another exit code": 0 <= code != 99 and code not in (0, 2),
    }
    if code == 2:
        last = said.rpartition("chainrule: ")[2]
        found["no sentence"] = not last.endswith("\n") or last.count("\n") > 1 or len(last) > 1000
    if name == "cache":
        found["a cache that fails a program"] = code != 0
    return [fault for fault, there in found.items() if there]


def check(cases: list[dict[str, Any]]) -> None:
    """Count the faults; show the first."""
    wrong = [(faults(case), case) for case in cases if faults(case)]
    assert not wrong, f"{len(wrong)} of {len(cases)}, seed {SEED}: {wrong[0]}"


@pytest.mark.parametrize("name", TARGETS)
def test_a_sample(name: str, tmp_path: Path):
    cases = attacked(name, 0, 12, tmp_path)
    assert len(cases) == 12
    check(cases)


@pytest.mark.fuzz
@pytest.mark.parametrize("block", range(7))
@pytest.mark.parametrize("name", TARGETS)
def test_many(name: str, block: int, tmp_path: Path):
    check(attacked(name, 100 + 100 * block, 100, tmp_path))


def test_the_faults_are_seen(tmp_path: Path):
    found = [
        (case["case"].partition(": ")[2], faults(case))
        for case in attacked("planted", 0, 7, tmp_path)
    ]
    assert len(found) == 7 and all(word in seen for word, seen in found), found
    fine = {"case": "data 1", "code": 2, "said": "chainrule: no.\n", "grown": 0, "ran": False}
    assert faults(fine) == [] and faults({**fine, "case": "cache 1"}) != []
