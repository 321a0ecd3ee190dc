"""What scripts about terms of a loss have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file
from tests.verify.script.test_script_again import observed

MARKS = [
    pytest.mark.skipif(not can_fork(), reason="processes are not copied here"),
    sampled_file(one_in=8),
]
HEAD = """
import copy
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
"""


def only_the_marked_line(tmp_path: Path, text: str) -> None:
    """A script has a finding on the line that is marked `# HERE`; none where no line is."""
    marked = [n for n, line in enumerate(text.split("\n"), 1) if "# HERE" in line]
    found, _, _ = observed(tmp_path, text.replace("  # HERE", ""))
    alarms = [f for f in found if f.level != "note"]
    assert bool(alarms) == bool(marked), alarms
    lines = [f.place.line for f in alarms if f.place is not None]
    assert not marked or marked[0] in lines
