"""A call of PyTorch's as a subject of the verifier: its value, and PyTorch's derivative of it."""

from __future__ import annotations

from typing import Any

import torch

from chainrule.traces.certificates.probes import NotCheckedError
from chainrule.traces.pytorch.calls import TorchCall, is_float
from chainrule.verify.pytorch.calls import subject_of_call
from chainrule.verify.subject import Subject


def subject_of_torch_call(call: TorchCall) -> Subject:
    """The call with its operands as float64, where it takes them.

    Raises `NotCheckedError` where they were not kept.
    """
    if not call.is_whole:
        raise NotCheckedError(f"the arrays of {call.name} are too large to be kept")

    def run(*values: Any) -> Any:
        return call.run(values)

    given = [x.value for x in call.operands]
    wide = [_wide(x) for x in given]
    try:
        with torch.no_grad():
            run(*[x.clone() if isinstance(x, torch.Tensor) else x for x in wide])
    except RuntimeError:  # a kernel for narrow numbers only
        wide = given
    return subject_of_call(run, wide, name=call.name)


def _wide(x: Any) -> Any:
    if not is_float(x):
        return x
    wide = x.to(torch.complex128 if x.is_complex() else torch.float64)
    return wide.detach().clone().requires_grad_(x.requires_grad)
