"""No false alarm: correct training loops get no error and no warning, and come out the same."""

from __future__ import annotations

import pytest
import torch

from chainrule.verify.ledger import Ledger
from chainrule.verify.training import observers
from tests.sampling import sampled_file
from tests.verify.training.programs.training_right import RIGHT
from tests.verify.training.programs.training_right_hooks import HOOKS
from tests.verify.training.programs.training_right_later import LATER
from tests.verify.training.programs.training_right_more import (
    MORE,
)
from tests.verify.training.programs.training_right_unheld import UNHELD

pytestmark = sampled_file(one_in=12)


def observed(loop):
    """Findings of a loop, and what its ledger skipped."""
    parts = observers()
    for part in parts:
        part.start()
    try:
        loop()
    except RuntimeError:
        pass
    finally:
        for part in reversed(parts):
            part.stop()
    ledger = Ledger()
    found = [finding for part in parts for finding in part.findings(ledger)]
    return found, ledger


@pytest.mark.parametrize("loop", [*RIGHT, *MORE, *UNHELD, *HOOKS, *LATER], ids=lambda f: f.__name__)
def test_nothing_is_said_of_a_loop_that_is_right(loop):
    torch.manual_seed(0)
    found, ledger = observed(loop)
    loud = [f"{f.level} {f.name.code}: {f.name.because}" for f in found if f.level != "note"]
    assert not loud
    broken = [s.why for s in ledger.skipped if "error of the verifier" in s.why]
    assert not broken


def test_there_are_many():
    assert len(RIGHT) + len(MORE) >= 100
