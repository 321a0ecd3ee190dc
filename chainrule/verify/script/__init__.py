"""Unmodified training scripts under observation: `chainrule verify train.py`."""

from chainrule.verify.script.observers import LOOP, OWN, TORCH
from chainrule.verify.script.run import Outcome, run
from chainrule.verify.script.session import LOOKED_FOR
from chainrule.verify.script.target import Target, target

__all__ = ["LOOKED_FOR", "LOOP", "OWN", "TORCH", "Outcome", "Target", "run", "target"]
