"""What share of slips in hand-written backwards is repaired, and in what time.

    python -m bench.verify_repair [numpy] [torch]

The slips are those of the tests, of which the tests try one in five.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from chainrule.verify.evidence import Evidence
from chainrule.verify.measure.examine import examine
from chainrule.verify.repair import repairs
from tests.verify import repair_cases, repair_cases_torch


def numpy_cases(folder: Path) -> Iterator[tuple[str, Evidence]]:
    from chainrule.verify.arrays.pair import subject_of_pair

    every = [(op, [(right, wrong)]) for op, right, wrong in repair_cases.SLIPS]
    for i, (op, slips) in enumerate([*every, *repair_cases.TWICE]):
        case = repair_cases.case(op, slips, folder, i)
        pair = subject_of_pair(case.module.forward, case.module.backward, case.args)
        yield f"{op}: {slips}", examine(pair)


def torch_cases(folder: Path) -> Iterator[tuple[str, Evidence]]:
    from tests.verify.test_repair_torch import evidence_of

    for op, right, wrong in repair_cases_torch.SLIPS:
        yield f"{op}: {right!r} is {wrong!r}", evidence_of(op, right, wrong, folder)


def main() -> None:
    kinds = sys.argv[1:] or ["numpy", "torch"]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            made = numpy_cases(Path(folder)) if kind == "numpy" else torch_cases(Path(folder))
            done, seconds = 0, list[float]()
            for name, evidence in made:
                start = perf_counter()
                found = repairs(evidence)
                seconds.append(perf_counter() - start)
                whole = any(r.whole for r in found)
                done += whole
                if not whole:
                    print(f"not repaired: {name}")
            seconds.sort()
            median, most = seconds[len(seconds) // 2], seconds[-1]
            times = f"{median:.2f} s at the median, {most:.2f} s at most"
            print(f"{kind}: {done} of {len(seconds)}; {times}")


if __name__ == "__main__":
    main()
