"""Workers as processes of one machine, each with a place in its environment.

Importing PyTorch takes seconds. So one process, the nursery, imports everything and forks the
workers of each case: it reads a case as a line of JSON and answers with one.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chainrule.parallel.membership import Membership

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs.py")
PATIENCE = 120.0
"""Seconds after which a case has failed, on a machine that is busy with other things."""


@dataclass(frozen=True)
class Result:
    """What a worker printed last, as JSON; its exit code; what it wrote to stderr."""

    said: Any
    code: int
    stderr: str

    @property
    def error(self) -> str:
        assert isinstance(self.said, dict) and "error" in self.said, (self.said, self.stderr)
        return self.said["error"]


def environment(**more: str) -> dict[str, str]:
    """Of a process of the tests: one thread, this package."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHAINRULE_PARALLEL_")}
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    return {**kept, **threads, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **more}


class Nursery:
    """Runs cases in workers that are forked from one process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.parallel.running"],
            cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, size: int, *args: str, ends: bool = True, **more: str) -> list[Any]:
        """What each of `size` workers said (with `ends`, all have to end well), or their Results.

        A worker that does not end in time is killed: its code is -9.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([size, args, more]) + "\n")
        self._process.stdin.flush()
        results = [Result(*fields) for fields in json.loads(self._process.stdout.readline())]
        if not ends:
            return results
        for result in results:
            assert result.code == 0, (result.said, result.stderr)
        return [result.said for result in results]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def nursery() -> Iterator[Nursery]:
    """A nursery, closed at the end."""
    made = Nursery()
    try:
        yield made
    finally:
        made.close()


def places(size: int) -> list[Membership]:
    """Of workers on this machine that meet in a folder of their own."""
    store = f"file:{tempfile.mkdtemp()}/store"
    return [Membership(rank, size, size, store) for rank in range(size)]


def _serve() -> None:
    """The nursery's own program."""
    import torch.distributed  # noqa: F401  (what takes long)

    import chainrule.compile.jit
    import chainrule.parallel  # noqa: F401

    for line in sys.stdin:
        size, args, more = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            outs = [Path(folder) / str(rank) for rank in range(size)]
            pids = [
                _fork({**place.variables(), **more}, args, out)
                for place, out in zip(places(size), outs, strict=True)
            ]
            codes = _wait(pids, float(more.get("PATIENCE", PATIENCE)))
            results = [_result(out, code) for out, code in zip(outs, codes, strict=True)]
        print(json.dumps(results), flush=True)


def _fork(variables: Mapping[str, str], args: list[str], out: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.update(variables)
        sys.argv[:] = [str(PROGRAMS), *args]
        err = out.with_suffix(".err")
        with (
            out.open("w", encoding="utf-8") as o,
            err.open("w", encoding="utf-8") as e,
            redirect_stdout(o),
            redirect_stderr(e),
        ):
            code = _run()
    finally:
        os._exit(code)


def _run() -> int:
    try:
        runpy.run_path(str(PROGRAMS), run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    return 0


def _wait(pids: list[int], patience: float) -> list[int]:
    """The exit codes; who does not end in time is killed."""
    codes: dict[int, int] = {}
    end = time.monotonic() + patience
    while len(codes) < len(pids):
        for pid in pids:
            if pid not in codes:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    codes[pid] = os.waitstatus_to_exitcode(status)
                elif time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return [codes[pid] for pid in pids]


def _result(out: Path, code: int) -> tuple[Any, int, str]:
    lines = out.read_text(encoding="utf-8").strip().splitlines()
    err = out.with_suffix(".err").read_text(encoding="utf-8")
    return json.loads(lines[-1]) if lines else None, code, err


if __name__ == "__main__":
    _serve()
