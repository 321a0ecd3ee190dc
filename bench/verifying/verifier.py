"""How many planted mistakes does the verifier find, name and correct, and how often is it wrong?

The whole corpus (`tests/verify/planted`): mistakes V1 to V12 in fifteen ops and three faces and in
training scripts, and correct cases. Takes about a quarter of an hour.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from bench.pairs import Row
from tests.verify.planted import alarms, harness
from tests.verify.planted.judge import Outcome

WHAT = {
    "detected": ("detected", 99),
    "op": ("first wrong op located", 95),
    "line": ("line located", 95),
    "first": ("named first", 85),
    "three": ("named among three", 95),
    "rechecked": ("corrected and re-checked", 85),
    "confirmed": ("corrected code agrees with differences", 85),
}


def row(title: str, outcomes: Sequence[Outcome], column: str, aim: int) -> Row:
    """A share of all, and of the frozen third beside it."""
    held = [o for o in outcomes if o.frozen]
    share, frozen = (
        100 * sum([getattr(o, column) for o in some]) / max(len(some), 1)
        for some in (outcomes, held)
    )
    return Row(
        f"{title} (all / frozen third)", f"{share:.1f} %", f"{frozen:.1f} %", "", f"≥ {aim} %"
    )


def run() -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = list(harness.run(harness.planted()))
        verdicts = list(alarms.run(alarms.correct()))
    rows = [
        row(f"{len(outcomes)} mistakes: {title}", outcomes, column, aim)
        for column, (title, aim) in WHAT.items()
    ]
    for face in dict.fromkeys([o.face for o in outcomes]):
        some = [o for o in outcomes if o.face == face]
        # a script has no gradient that the corpus could compare with its own differences
        columns = [c for c in WHAT if face != "script" or c != "confirmed"]
        rows += [row(f"{face}, {len(some)}: {WHAT[c][0]}", some, c, WHAT[c][1]) for c in columns]
    wrong, broke = sum([v.alarm for v in verdicts]), sum([bool(v.broke) for v in verdicts])
    rows.append(Row(f"false alarms in {len(verdicts)} correct cases", str(wrong), "", "", "0"))
    rows.append(Row("correct cases in which the verifier itself failed", str(broke), "", "", "0"))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
