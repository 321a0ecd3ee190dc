"""`python -m tests.verify.planted`: the corpus against the verifier, as a table.

Planted mistakes, or with `--correct` the correct cases. Failures of the open part are printed as
they come, one line each; of the frozen third only the rates are, unless `--frozen` is given.
"""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from . import alarms, harness


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.planted", description=__doc__)
    parser.add_argument("--face", choices=harness.FACES, help="one face only")
    parser.add_argument("--v", default="", help="one row of the list only, such as V5")
    parser.add_argument("--case", default="", help="cases whose id contains this")
    parser.add_argument("--every", type=int, default=1, help="one case of so many")
    parser.add_argument("--start", type=int, default=0, help="with --every: from this one on")
    parser.add_argument("--correct", action="store_true", help="correct cases instead")
    parser.add_argument("--report", action="store_true", help="print reports of open cases whole")
    parser.add_argument("--frozen", action="store_true", help="failures of the frozen third, too")
    parser.add_argument("--limit-seconds", type=float, default=1e9)
    return parser.parse_args()


def main() -> None:
    """Run what was asked for; print the failures of the open part, and the rates of all."""
    args = arguments()
    warnings.simplefilter("ignore")
    if args.correct:
        cases = alarms.correct(args.case)[args.start :: args.every]
        verdicts = []
        for v in alarms.run(cases, args.limit_seconds):
            verdicts.append(v)
            if alarms.failed(v) and (args.frozen or not v.frozen):
                print(alarms.line(v), flush=True)
        print(alarms.table(verdicts))
        return
    faces = (args.face,) if args.face else harness.FACES
    cases = harness.planted(faces, args.v, args.case)[args.start :: args.every]
    outcomes = []
    for o in harness.run(cases, args.limit_seconds):
        outcomes.append(o)
        if harness.failed(o) and (args.frozen or not o.frozen):
            print(harness.line(o), flush=True)
        if args.report and (args.frozen or not o.frozen):
            print(o.text)
    print(harness.table(outcomes))
    print(f"{sum([o.seconds for o in outcomes]):.0f} s")


if __name__ == "__main__":
    main()
