"""Which worker's words the launcher passes on."""

from __future__ import annotations

import pytest

from chainrule.errors import OtherWorkerError, ParallelError
from chainrule.parallel.launcher import launch

CAUSE = "sys.stderr.write('chainrule: the disk is full.'); time.sleep({late}); sys.exit(2)"
OTHER = f"sys.stderr.write('chainrule: the other one.'); sys.exit({OtherWorkerError.EXIT_CODE})"
PROGRAM = """
import os, sys, time
if os.environ["CHAINRULE_PARALLEL_RANK"] == "{cause}":
    {does}
{other}
"""


@pytest.mark.parametrize("late", [0.0, 0.3])
@pytest.mark.parametrize("cause", range(3))
def test_the_cause_is_said_whoever_ends_first(cause: int, late: float):
    program = PROGRAM.format(cause=cause, does=CAUSE.format(late=late), other=OTHER)
    with pytest.raises(ParallelError, match=r"^the disk is full$"):
        launch(["-c", program], 3, announce=pytest.fail)


def test_words_of_another_are_better_than_none():
    with pytest.raises(ParallelError, match=r"^the other one$"):
        launch(["-c", f"import sys; {OTHER}"], 2, announce=pytest.fail)
