"""A process that spoils one target after the other, and runs each in a child of its own.

    python -m tests.attacks.worker TARGET SEED FIRST COUNT FOLDER

It prints a line of JSON for each: what was done, and how the child ended. A child may take 30
seconds, and one gibibyte more than this process has; what it takes beyond ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.attacks.targets import TARGETS, Run

GIB = 1 << 30
SECONDS = 30


def used(field: str) -> int:
    """Bytes of memory of this process."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise LookupError(field)


def child(run: Run, out: int) -> None:
    """Run it with its output in `out`, and end."""
    code = 99
    try:
        os.dup2(out, 1)
        os.dup2(out, 2)
        limit = used("VmSize") + GIB
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        signal.alarm(SECONDS)
        code = run()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "backslashreplace"))
    finally:
        os._exit(code)


def result(run: Run, path: Path) -> dict[str, Any]:
    """How a child that runs it ends."""
    out = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    before, start = used("VmRSS"), time.perf_counter()
    pid = os.fork()
    if pid == 0:
        child(run, out)
    _, status, usage = os.wait4(pid, 0)
    os.close(out)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "said": path.read_text(encoding="utf-8", errors="backslashreplace")[-3000:],
        "grown": max(0, (usage.ru_maxrss << 10) - before),
        "seconds": round(time.perf_counter() - start, 3),
    }


def main() -> None:
    """Read the arguments, attack, report."""
    name, seed, first, count, place = sys.argv[1:]
    folder = Path(place)
    with contextlib.redirect_stdout(sys.stderr):
        target = TARGETS[name](folder)
    for i in range(int(first), int(first) + int(count)):
        word, run = target.spoiled(random.Random(f"{seed} {name} {i}"))
        found = result(run, folder / "said")
        found |= {"case": f"{name} {i} of seed {seed}: {word}", "ran": target.canary.exists()}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
