"""How fast do two workers exchange gradients and train, beside gloo, one worker and DDP?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from bench.pairs import Row, row
from chainrule.parallel.membership import Membership

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "CHAINRULE_NUM_THREADS")


def workers(size: int, case: str) -> Any:
    """What worker 0 of so many says, each of one thread."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Membership(rank, size, size, f"file:{folder}/store") for rank in range(size)]
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "bench.parallel_worker", case],
                env={**os.environ, **dict.fromkeys(THREADS, "1"), **place.variables()},
                stdout=subprocess.PIPE, text=True,
            )
            for place in places
        ]  # fmt: skip
        out = [process.communicate()[0] for process in started]
        return json.loads(out[0].strip().splitlines()[-1])


def run() -> list[Row]:
    rows: list[Row] = []
    for size, times in workers(2, "exchange").items():
        kib = f"{int(size) >> 10:,} KiB"
        for i, which in enumerate(("least", "median")):
            mine, theirs = times["ours"][i] / 1e3, times["gloo"][i] / 1e3
            rows.append(row(f"our tree / gloo's all-reduce, {kib}, {which}", mine, theirs, "≤ 1.0"))
    found = workers(2, "peers")
    size = found["bytes"] / 1e6
    mine, theirs = (found["exchange"][name][1] / 1e3 for name in ("ours", "gloo"))
    what = f"the same with a model's {size:.0f} MB, between its steps"
    rows.append(row(what, mine, theirs, "≤ 1.5"))
    for i, which in enumerate(("least", "median")):
        mine, theirs = found["ours"][i] / 1e3, found["DDP"][i] / 1e3
        rows.append(row(f"a step of 2 workers / PyTorch's DDP, {which}", mine, theirs, "< 1"))
    whole, call = workers(1, "nothing")
    rows.append(row("a group of one: its call / a step", call / 1e3, whole / 1e3, "≤ 0.01"))
    pairs = [(workers(2, "alone"), workers(1, "alone")) for _ in range(3)]
    two, one = (min(times) / 1e3 for times in zip(*pairs, strict=True))
    rows.append(row("a step of 2 workers / 1 worker, the same batch", two, one, "≤ 0.67"))
    return rows
