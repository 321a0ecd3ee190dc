"""A checkpoint that gives a value without a graph.

The older way to checkpoint, `use_reentrant=True`, runs the code as a node of the graph whose inputs
are the checkpoint's arguments. If none of these requires a gradient, as at the first layer of a
model, there is no node, and the parameters inside get nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.pytorch.nested import tensors_in
from chainrule.verify.script.alive import parameter_names
from chainrule.verify.script.remedies.cuts import not_reentrant
from chainrule.verify.training.names import listed
from chainrule.verify.training.said import said

_ADVICE = "checkpoint with use_reentrant=False"


def has_no_graph(args: Any, out: Any) -> bool:
    """Whether a checkpoint was given no value that requires a gradient, and gave none."""
    given, made = tensors_in(args), [t for t in tensors_in(out) if t.is_floating_point()]
    return bool(made) and not any(t.requires_grad for t in [*given, *made])


def unconnected(leaves: Sequence[torch.Tensor], place: Place | None) -> Finding:
    """The finding: `leaves` require a gradient, were read inside, and get none."""
    known = parameter_names(torch.nn.Module)
    names = listed([known.get(id(t), f"a leaf of shape {tuple(t.shape)}") for t in leaves])
    because = (
        f"no argument of this checkpoint requires a gradient, so that with use_reentrant=True its "
        f"result has no graph: {names} get nothing of the loss"
    )
    kind = "torch.utils.checkpoint"
    edit = not_reentrant(place)
    return said(
        "error", "detached", because, _ADVICE, place, subject="a checkpoint", kind=kind, edit=edit
    )
