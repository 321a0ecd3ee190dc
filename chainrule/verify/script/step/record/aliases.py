"""Values that are changed in place and that have another name, or share their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from chainrule.verify.place import Place
from chainrule.verify.user_frames import here, placed, user_frame

_MERGES = frozenset({"lerp_", "add_", "sub_", "copy_", "addcmul_"})
"""Calls that write one tensor into another."""


@final
class Aliases:
    """Notes such changes."""

    def __init__(self) -> None:
        self.changed: dict[Place, str] = {}
        """Where tensors were changed by themselves, and by which call."""
        self.names: dict[Place, set[str]] = {}
        """Where values with a graph were changed that have several names, and these."""

    def note(self, name: str, args: Sequence[Any]) -> None:
        """A call is about to change its first argument."""
        x, y = (*args[:2], None, None)[:2]
        if not isinstance(x, Tensor):
            return
        if name in _MERGES and isinstance(y, Tensor):
            self._note_merge(name, x, y)
        frame = None if x.is_leaf else user_frame()
        names = {k for k, held in frame.f_locals.items() if held is x} if frame is not None else ()
        if len(names) > 1 and (place := placed(here())) is not None:
            self.names.setdefault(place, set()).update(names)

    def _note_merge(self, name: str, x: Tensor, y: Tensor) -> None:
        """A value that is changed by what is in the same memory: what is kept is no copy."""
        if name in ("add_", "sub_") and isinstance(x, torch.nn.Parameter):
            return  # whose memory parameters lie in is looked at by themselves
        same = x.shape == y.shape and x.data_ptr() == y.data_ptr() and x.numel() > 0
        if same and (place := placed(here())) is not None:
            self.changed[place] = name
