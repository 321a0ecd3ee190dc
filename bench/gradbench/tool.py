"""A tool for the suite: it reads the suite's messages and answers with chainrule's results.

    gradbench run --eval "gradbench eval gmm" --tool "python -m bench.gradbench.tool"

runs here as it runs for any other tool: the suite makes the inputs and judges the outputs by its
own reference. One JSON message a line, as the suite's CONTRIBUTING.md describes. `--engine eager`
compiles nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from typing import Any

import chainrule as cr
from bench.gradbench.problem import Jit, Problem, eager
from bench.gradbench.problems import PROBLEMS

ENGINES: dict[str, Jit] = {"jit": cr.jit, "eager": eager}
MOST_RUNS = 1000


def timed(call: Any, runs: int, seconds: float) -> tuple[Any, list[int]]:
    """The last result of as many calls as the suite asks for, and how many ns each took."""
    times: list[int] = []
    result: Any = None
    while len(times) < runs or (sum(times) < seconds * 1e9 and len(times) < MOST_RUNS):
        start = time.perf_counter_ns()
        result = call()
        times.append(time.perf_counter_ns() - start)
    return result, times


def evaluate(problem: Problem, engine: Jit, message: dict[str, Any]) -> dict[str, Any]:
    """The answer to one `evaluate` message. The first call compiles and is not counted."""
    given, name = message["input"], message["function"]
    how = given if isinstance(given, dict) else {}
    args = problem.read(given)
    function = problem.functions(engine)[name]
    function(*args)
    result, times = timed(
        lambda: function(*args), how.get("min_runs", 1), how.get("min_seconds", 0)
    )
    return {
        "success": True,
        "output": problem.write(args, name, result),
        "timings": [{"name": "evaluate", "nanoseconds": t} for t in times],
    }


def answer(message: dict[str, Any], engine: Jit) -> dict[str, Any]:
    """What a tool answers to any message but the last."""
    match message["kind"]:
        case "start":
            return {"tool": "chainrule"}
        case "define":
            return {"success": message["module"] in PROBLEMS}
        case "evaluate":
            try:
                return evaluate(PROBLEMS[message["module"]], engine, message)
            except Exception:
                return {"success": False, "error": traceback.format_exc()}
        case _:
            return {}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--engine", choices=ENGINES, default="jit")
    engine = ENGINES[options.parse_args().engine]
    for line in sys.stdin:
        message = json.loads(line)
        if message["kind"] != "end":
            reply = {"id": message["id"], **answer(message, engine)}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
