"""`python -m tests.verify.planted`: the corpus against the verifier, as a table."""

from __future__ import annotations

import argparse
import os
import warnings

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from . import harness


def main() -> None:
    """Run what was asked for; print rates, and the failures of the open part."""
    parser = argparse.ArgumentParser(prog="python -m tests.verify.planted", description=__doc__)
    parser.add_argument("--face", choices=harness.FACES, help="one face only")
    parser.add_argument("--v", default="", help="one row of the list only, such as V5")
    parser.add_argument("--case", default="", help="cases whose id contains this")
    parser.add_argument("--report", action="store_true", help="print reports of open cases whole")
    parser.add_argument("--frozen", action="store_true", help="failures of the frozen third, too")
    parser.add_argument("--limit-seconds", type=float, default=1e9)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    faces = (args.face,) if args.face else harness.FACES
    cases = harness.planted(faces, args.v, args.case)
    outcomes = harness.run(cases, args.limit_seconds)
    if not outcomes:
        raise SystemExit("no such case")
    print(harness.table(outcomes))
    print(f"\n{sum([o.seconds for o in outcomes]):.0f} s")
    for text in harness.failures(outcomes, args.frozen):
        print(text)
    if args.report:
        print("\n\n".join([o.text for o in outcomes if args.frozen or not o.frozen]))


if __name__ == "__main__":
    main()
