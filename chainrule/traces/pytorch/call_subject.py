"""A call of PyTorch's as a subject of the verifier: its value, and PyTorch's derivative of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from chainrule.traces.certificates.probes import NotCheckedError
from chainrule.traces.pytorch.calls import TorchCall, is_float
from chainrule.verify.pytorch.calls import subject_of_call
from chainrule.verify.subject import Subject


def subject_of_torch_call(call: TorchCall) -> Subject:
    """The call with its operands as float64, where it takes them, and what it converts to, too.

    Raises `NotCheckedError` where they were not kept.
    """
    if not call.is_whole:
        raise NotCheckedError(f"the arrays of {call.name} are too large to be kept")

    given = [x.value for x in call.operands]
    wide = [_wide(x) for x in given]
    wider = replace(call, flat=[_WIDER.get(x, x) if _is_dtype(x) else x for x in call.flat])

    def run(*values: Any) -> Any:
        return wider.run(values)

    try:
        with torch.no_grad():
            run(*[x.clone() if isinstance(x, torch.Tensor) else x for x in wide])
    except RuntimeError:  # a kernel for narrow numbers only
        wide, wider = given, call
    return subject_of_call(run, wide, name=call.name)


_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def _is_dtype(x: Any) -> bool:
    return isinstance(x, torch.dtype)


def _wide(x: Any) -> Any:
    if not is_float(x):
        return x
    wide = x.to(_WIDER.get(x.dtype, x.dtype))
    return wide.detach().clone().requires_grad_(x.requires_grad)
