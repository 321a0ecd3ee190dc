"""What holds for all tests of the verifier: how busy the machine is decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from chainrule.verify import repair
from chainrule.verify.script import known_formulas, trial_runs


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads that wait for each other take long on a machine that is busy with other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corrections are looked for as on a quiet machine, and tried until they are done. Formulas are
    looked for briefly in scripts that are about something else."""
    monkeypatch.setattr(repair, "SECONDS", 3 * repair.SECONDS)
    monkeypatch.setattr(trial_runs, "LEAST", 120.0)
    monkeypatch.setattr(known_formulas, "_SEARCHES", 1.0)
