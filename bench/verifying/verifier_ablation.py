"""Which rule of the repair search wins where: how often each is tried, wins, and alone can win.

    python -m bench.verifying.verifier_ablation [--every N] [--only rule,rule] [--needed]
        [--out F] [--read F]

Cases: the planted mistakes of three faces, and the slips of the repair tests. `--only` runs with
these rules and no others. `--needed` runs each corrected case again without the rules that won it.
With `--out`, outcomes are appended to a file, one line of JSON for each case.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chainrule.verify.repair import search
from chainrule.verify.repair.failing_rules import name_of, spare_failures
from tests.verify.planted import harness
from tests.verify.planted.judge import judge
from tests.verify.repair import repair_cases, repair_cases_torch

FACES = ("numpy", "own", "torch")
COLUMNS = ("detected", "line", "first", "rechecked", "confirmed")


@dataclass
class Tally:
    """What happened in one case: edits tried, by rule, and the rules that won."""

    tried: Counter[str] = field(default_factory=Counter[str])
    won: list[str] = field(default_factory=list[str])


@contextmanager
def observed(only: frozenset[str] = frozenset(), without: frozenset[str] = frozenset()) -> Any:
    """Counts the edits that are tried, by rule; runs some rules only."""
    from chainrule.verify.repair import checks

    tally, modules = Tally(), [m for n, m in sys.modules.items() if "verify.repair" in n]
    users = [m for m in modules if getattr(m, "spared", None) is spare_failures]
    applied, repaired = search.apply_edit, checks._as_repaired  # pyright: ignore[reportPrivateUsage]

    def some(failures: Any, rule: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
        name = name_of(rule)
        if name != "checks._search" and (name in without or (only and name not in only)):
            return
        yield from spare_failures(failures, rule, *args, **kwargs)

    def counted(problem: Any, at: Any, version: Any, edit: Any) -> Any:
        tally.tried[edit.rule] += 1
        return applied(problem, at, version, edit)

    def won(posed: Any, first: Any, version: Any, *args: Any) -> Any:
        tally.won += [s.edit.rule for s in version.steps]
        return repaired(posed, first, version, *args)

    try:
        for module in users:
            module.spared = some  # pyright: ignore[reportAttributeAccessIssue]
        search.apply_edit, checks._as_repaired = counted, won  # pyright: ignore[reportPrivateUsage]
        yield tally
    finally:
        for module in users:
            module.spared = spare_failures  # pyright: ignore[reportAttributeAccessIssue]
        search.apply_edit, checks._as_repaired = applied, repaired  # pyright: ignore[reportPrivateUsage]


def slips(folder: Path) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The slips of the repair tests, each with what runs it."""
    from chainrule import verify
    from tests.verify.repair.lines.test_repair_home import SLIPS as HOME
    from tests.verify.repair.repair_cases_home import given
    from tests.verify.repair.test_repair_torch import (
        _argument,  # pyright: ignore[reportPrivateUsage]
    )

    def numpy(op: str, made: list[tuple[str, str]], n: int) -> dict[str, Any]:
        case = repair_cases.case(op, made, folder, n)
        report = verify.pair(case.module.forward, case.module.backward, *case.args)
        return held(report, made[0][1])

    def home(op: str, right: str, wrong: str, n: int) -> dict[str, Any]:
        changed = [line for line in wrong.split("\n") if line not in right.split("\n")]
        return held(verify.pair(*given(op, right, wrong, folder, n)), changed[0])

    def torch(op: str, right: str, wrong: str, n: int) -> dict[str, Any]:
        head, tail = repair_cases_torch.OPS[op].split("def backward")
        text = f"import torch\n{head}def backward{tail.replace(right, wrong, 1)}"
        function = repair_cases.module(text, folder, n).F
        args = [_argument(op, s) for s in repair_cases_torch.SHAPES[op]]
        return held(verify.function(function, *args), wrong)

    number = iter(range(20000, 30000))
    some = [(op, [(right, wrong)]) for op, right, wrong in repair_cases.SLIPS]
    for op, made in [*some, *repair_cases.TWICE]:
        yield f"slips/numpy/{op}: {made}", lambda op=op, m=made: numpy(op, m, next(number))
    for kind, every in HOME.items():
        for op, right, wrong in every:
            run = lambda op=op, r=right, w=wrong: home(op, r, w, next(number))
            yield f"slips/home/{kind}, {op}: {wrong!r}", run
    for op, right, wrong in repair_cases_torch.SLIPS:
        run = lambda op=op, r=right, w=wrong: torch(op, r, w, next(number))
        yield f"slips/torch/{op}: {wrong!r}", run


def held(report: Any, wrong: str) -> dict[str, Any]:
    """A report against the text of a slip."""
    found = [f for f in report.findings if f.level != "note"]
    places = [p for f in found[:1] for p in (f.place, f.correction and f.correction.place) if p]
    codes = [n.code for f in found[:1] for n in f.names]
    rechecked = bool(found) and all(f.correction and f.correction.rechecked for f in found)
    first = wrong.strip().split("\n")[0].strip()
    line = any(first in p.text or p.text.strip() in wrong for p in places)
    return {"detected": bool(found), "line": line, "rechecked": rechecked, "said": codes[:1]}


def planted() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Planted mistakes, each with what runs it."""
    for case in harness.planted(FACES):

        def run(case: Any = case) -> dict[str, Any]:
            o = judge(case)
            return {c: getattr(o, c) for c in COLUMNS} | {"said": o.said, "broke": o.broke}

        yield f"planted/{case.id}", run


def outcome(
    run: Callable[[], dict[str, Any]], only: frozenset[str], needed: bool
) -> dict[str, Any]:
    """One case: what came of it, the rules that were tried and won, and whether others can."""
    from time import process_time

    start = process_time()
    with observed(only) as tally:
        found = run()
    found |= {"tried": dict(tally.tried), "won": tally.won, "seconds": process_time() - start}
    if needed and found["rechecked"] and tally.won:
        with observed(only, frozenset(tally.won)) as other:
            found["without"] = run()["rechecked"]
        found["instead"] = other.won
    return found


def table(outcomes: list[dict[str, Any]]) -> Iterator[str]:
    """Shares by corpus, then rules by wins, as Markdown."""
    yield "| corpus | cases | " + " | ".join(COLUMNS) + " | seconds |"
    yield "|---|---|" + "---|" * (len(COLUMNS) + 1)
    for kind in dict.fromkeys([o["corpus"] for o in outcomes]):
        some = [o for o in outcomes if o["corpus"] == kind]
        cells = [sum([bool(o.get(c)) for o in some]) if c in some[0] else "" for c in COLUMNS]
        seconds = sum([o["seconds"] for o in some])
        yield f"| {kind} | {len(some)} | " + " | ".join(map(str, cells)) + f" | {seconds:.0f} |"
    tried, wins, needed = Counter[str](), Counter[str](), Counter[str]()
    for o in outcomes:
        tried.update(o["tried"])
        wins.update(set(o["won"]))
        needed.update(set(o["won"]) if not o.get("without", True) else [])
    yield ""
    yield "| rule | edits tried | cases won | none other can |"
    yield "|---|---|---|---|"
    for rule in sorted(tried, key=lambda r: (-wins[r], -tried[r])):
        yield f"| `{rule}` | {tried[rule]} | {wins[rule]} | {needed[rule]} |"


def main() -> None:
    """Run what was asked for, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.verifying.verifier_ablation", description=__doc__
    )
    parser.add_argument("--every", type=int, default=1, help="one case of so many")
    parser.add_argument("--start", type=int, default=0, help="from this one on")
    parser.add_argument("--only", default="", help="run these rules only")
    parser.add_argument("--case", default="", help="cases whose name contains this")
    parser.add_argument("--needed", action="store_true", help="again, without the rules that won")
    parser.add_argument("--read", type=Path, help="print the tables of such a file, run nothing")
    parser.add_argument("--out", type=Path, help="a file to which outcomes are appended")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.read:
        lines = args.read.read_text(encoding="utf-8").splitlines()
        print("\n".join(table([json.loads(line) for line in lines])))
        return
    only = frozenset([r for r in str(args.only).split(",") if r])
    outcomes = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        cases = [c for c in [*slips(Path(folder)), *planted()] if args.case in c[0]]
        for name, run in cases[args.start :: args.every]:
            found = outcome(run, only, args.needed)
            found |= {"name": name, "corpus": "/".join(name.split("/")[:2])}
            outcomes.append(found)
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
    print("\n".join(table(outcomes)))


if __name__ == "__main__":
    main()
