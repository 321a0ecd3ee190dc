"""The line that is wrong is the line that is changed, and no other that could make up for it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from chainrule import verify
from tests.sampling import sampled, sampled_file
from tests.verify.repair.repair_cases_home import OPS, given

pytestmark = sampled_file(one_in=12)


_number = itertools.count(9000)

AFTER_LOOPS = [
    ("skip", "return grad + up", "return up"),
    ("triple", "return 3 * grad + up", "return up"),
    ("past", "return up - 2 * grad", "return up"),
]
NAMES = [
    ("product", "(1 - t * t)", "(1 - u * u)"),
    ("swish", "p + x * p * (1 - p)", "p + x * e * (1 - e)"),
    ("bell", "slope = -4 * x * y * y", "slope = -4 * x * q * q"),
    ("logs", "dr * 2 * q / (q * q + 2e-2)", "dr * 2 * p / (p * p + 2e-2)"),
]
NUMBERS = [
    ("normed", "+ self.eps)\n        y = self", "+ 1e-8)\n        y = self"),
    ("logs", "2 * p / (p * p + 2e-2)", "2 * p / (p * p + 1e-6)"),
    ("soft", "s = 1 / (1 + np.exp(-3.5 * x))", "s = 1 / (1 + np.exp(-1.702 * x))"),
]
GIVEN_A_NAME = [
    ("spread", "over = (1, 2)", "over = 2"),
    ("spread", "over = (1, 2)", "over = (0, 2)"),
]
HANDED_ON = [
    ("means", "dx *= g / n", "dx *= g"),
    ("votes", "dx *= g / x.size", "dx *= g"),
]
COTANGENTS = [
    ("steps", "e = -w * np.sin(d) * g[:, None]", "e = -w * np.sin(d)"),
    ("spans", "e = 2 * a * d * g[:, None]", "e = 2 * a * d"),
    (
        "neighbours",
        "e = np.ones((len(x) - 1, 1)) * w * g[:, None]",
        "e = np.ones((len(x) - 1, 1)) * w",
    ),
]
BOUNDS = [
    ("ratio", "x, limit = self.x, 0.05", "x, limit = self.x, 5e-5"),
    ("series", "near = np.abs(x) < 0.1", "near = np.abs(x) < 1e-3"),
    ("langevin", "large = x * x > 0.02", "large = x * x > 2e-5"),
]

SLIPS = {
    "after loops": AFTER_LOOPS,
    "names": NAMES,
    "numbers": NUMBERS,
    "given a name": GIVEN_A_NAME,
    "handed on": HANDED_ON,
    "cotangents": COTANGENTS,
    "bounds": BOUNDS,
}
_EVERY = [pytest.param(*slip, id=f"{k}, {slip[0]}") for k, found in SLIPS.items() for slip in found]
_KIND = {tuple(slip): kind for kind, found in SLIPS.items() for slip in found}


@sampled(one_in=12)
@pytest.mark.parametrize(("op", "right", "wrong"), _EVERY)
def test_the_slip_is_where_it_was_made(op: str, right: str, wrong: str, tmp_path: Path) -> None:
    findings = verify.pair(*given(op, right, wrong, tmp_path, next(_number))).findings
    changed = [line.strip() for line in wrong.split("\n") if line not in right.split("\n")]
    assert findings
    for finding in findings:
        assert finding.place is not None and changed[0] in finding.place.text
        assert finding.correction is not None and finding.correction.rechecked
        assert finding.correction.after and finding.correction.place == finding.place


@pytest.mark.parametrize("op", OPS)
def test_without_a_slip_there_is_no_finding(op: str, tmp_path: Path) -> None:
    assert verify.pair(*given(op, "", "", tmp_path, next(_number))).ok
