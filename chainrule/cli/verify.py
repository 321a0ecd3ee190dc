"""`chainrule verify`: run an unmodified training script and say which gradient is wrong, and where.

The script's output stays its own: the report goes to stderr. Only `--json -` takes stdout, for one
JSON document; what the script prints goes to stderr then.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from chainrule.cli.files import CommandError
from chainrule.cli.options import integer
from chainrule.verify.reporting.report import Report, joined

STEPS = 3
"""Steps that are observed in full."""
WINDOW = 60
"""Steps that are looked at for what shows late, if nobody says how many."""
EXAMPLES = """examples:
  chainrule verify train.py --lr 0.1            as `python train.py --lr 0.1`, observed for 3 steps
  chainrule verify package.train                as `python -m package.train`
  chainrule verify layers:Attention             one thing: a function, Function or module
  chainrule verify --stop --json - train.py     the report only, as JSON

exit code:
  0  nothing is wrong          1  findings          2  could not run, or saw no training
  the script's own, if that is not 0
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options. What follows the script is the script's."""
    add = parser.add_argument
    help = f"training steps to observe (3, and up to {WINDOW} for what shows late)"
    add("--steps", type=integer, metavar="N", help=help)
    add("--stop", action="store_true", help="end the script after the report")
    add("--json", metavar="FILE", help="write the report as JSON; - is stdout")
    add("--sarif", metavar="FILE", help="write the report as SARIF, for code review")
    add("--html", metavar="FILE", help="write the report as one HTML page")
    add("target", metavar="SCRIPT", help="a script, a module, or module:Name")
    add("args", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")


def command(asked: Mapping[str, Any], console: Console) -> int:
    """Verify what was asked; the exit code."""
    if asked["steps"] is not None and asked["steps"] < 1:
        raise CommandError(f"--steps {asked['steps']}: observe at least one step")
    name: str = asked["target"]
    verify = _one if ":" in name and not Path(name).is_file() else _script
    with _stdout_for_json(asked["json"] == "-") as out:
        reports: list[Report] = []
        code = verify(name, asked, _writer(asked, reports))
        if out is not None and reports:
            with os.fdopen(os.dup(out), "w", encoding="utf-8") as file:
                file.write(joined(name, reports).to_json() + "\n")
        return code


def _script(name: str, asked: Mapping[str, Any], deliver: Callable[[Report], None]) -> int:
    """Run a script under observation; the exit code: 0 right, 1 wrong, 2 without a step, or its
    own."""
    from chainrule.verify import script

    outcome = script.run(
        script.target(name),
        asked["args"],
        steps=asked["steps"] or STEPS,
        window=0 if asked["steps"] else WINDOW,
        stop=asked["stop"],
        deliver=deliver,
        own=script.OWN,
        torch=script.TORCH,
        loop=script.LOOP,
    )
    if outcome.code:
        _say(f"{name} ended with exit code {outcome.code}")
        return outcome.code
    if not outcome.is_seen:
        _say(f"{name} ran to its end, but no training step was seen ({script.LOOKED_FOR})")
        return 2
    return 0 if outcome.report.ok else 1


def _one(name: str, asked: Mapping[str, Any], deliver: Callable[[Report], None]) -> int:
    from chainrule.verify.script.single import verify_name

    if asked["args"]:
        raise CommandError(f"{name} is one thing, not a script: it takes no arguments")
    report = verify_name(name)
    deliver(report)
    return 0 if report.ok else 1


def _writer(asked: Mapping[str, Any], reports: list[Report]) -> Callable[[Report], None]:
    """What shows a report as soon as it is there, and adds it to `reports`. Where that was asked,
    it writes all of these to files, as one."""

    def deliver(report: Report) -> None:
        reports.append(report)
        if asked["json"] != "-":
            screen = Console(stderr=True, soft_wrap=True, highlight=False, force_jupyter=False)
            sys.stdout.flush()
            screen.print(report)
        whole = joined(asked["target"], reports)
        for form, text in (
            ("json", whole.to_json),
            ("sarif", whole.to_sarif),
            ("html", whole.to_html),
        ):
            path: str | None = asked[form]
            if path is not None and path != "-":
                _save(Path(path), text())

    return deliver


def _save(path: Path, text: str) -> None:
    """Write a file; that it cannot be written must not end the script that is running."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        _say(f"{path} cannot be written: {error.strerror}")


@contextmanager
def _stdout_for_json(wanted: bool) -> Generator[int | None]:
    """If `wanted`, a handle on stdout, to which nobody else writes within it."""
    if not wanted:
        yield None
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield kept
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _say(sentence: str) -> None:
    sys.stderr.write(f"chainrule verify: {sentence}\n")
