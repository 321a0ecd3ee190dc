"""A process that trains in children and kills them at moments drawn from a seed.

    python -m tests.attacks.killing SEED KILLS FOLDER

After so many kills it lets a child end. It prints a line of JSON: after which steps it killed, and
what was found at the end.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from chainrule.cli import checkpoint as checkpoints
from chainrule.cli.files import CommandError
from chainrule.cli.main import main as chainrule

STEPS = 100
SMALL = ["--n-embd", "4", "--n-head", "2", "--block-size", "6", "--engine", "tensor"]


def child(args: list[str], said: Path) -> int:
    """Start a child that runs the command; its number."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(out, 1)
            os.dup2(out, 2)
            code = chainrule(args)
            sys.stdout.flush()
        finally:
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    """How the child ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def saved(run: Path) -> int:
    """The step of the newest checkpoint, which must be whole; -1 if there is none."""
    try:
        path = checkpoints.find(run)
    except CommandError:
        return -1
    return checkpoints.load(path).step


def newest(run: Path) -> int:
    """The same by its name alone, while it may be written."""
    names = [p.name for p in (run / "checkpoints").glob("step-*")]
    return max([int(name[5:]) for name in names], default=-1)


def killed(pid: int, run: Path, more: int, wait: float) -> bool:
    """Kill a child when it has saved so many steps more, and a moment later; whether it lived."""
    upto = newest(run) + more
    while (
        newest(run) < upto
        and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    ):
        time.sleep(0.001)
    time.sleep(wait)
    os.kill(pid, signal.SIGKILL)  # one that has ended is a zombie until it is waited for
    return ended(pid) == -signal.SIGKILL


def main() -> None:
    """Train once without a break, and once with all these breaks; compare."""
    seed, kills, place = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    rng, said = random.Random(seed), place / "said"
    data, whole, part = place / "names.txt", place / "whole", place / "part"
    data.write_text("ann\nbob\ncarla\ndan\neve\n", encoding="utf-8")
    train = ["train", "--data", str(data), *SMALL, "--steps", str(STEPS), "--save-every", "1"]

    def started() -> int:
        begun = saved(part) >= 0
        args = ["train", "--resume", str(part)] if begun else [*train, "--out", str(part)]
        return child(args, said)

    with contextlib.redirect_stdout(io.StringIO()):  # here: so children find all modules loaded
        assert chainrule([*train, "--out", str(whole)]) == 0
    steps: list[int] = []
    for _ in range(kills):
        assert killed(started(), part, rng.randrange(5), rng.uniform(0, 0.02))
        steps.append(saved(part))
    last = ended(started())
    losses = [(run / "losses.csv").read_text(encoding="utf-8") for run in (whole, part)]
    found = {
        "steps": steps, "last": last, "same": losses[0] == losses[1], "rows": losses[0].count("\n"),
        "left": sorted([p.name for p in part.rglob("*") if ".tmp" in p.name]),
        "traceback": "Traceback" in said.read_text(encoding="utf-8"),
    }  # fmt: skip
    print(json.dumps(found))


if __name__ == "__main__":
    main()
