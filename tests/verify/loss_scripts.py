"""What scripts about terms of a loss have in common."""

from __future__ import annotations

import pytest

from chainrule.verify.script.sandbox.fork import can_fork
from tests.sampling import sampled_file

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
