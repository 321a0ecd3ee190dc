"""Writes docs/pytorch_names.md: PyTorch's own lists of layers, optimizers and functions, and ours.

Run it with PyTorch installed: `python scripts/pytorch_names.py`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import chainrule
from chainrule import nn, optim
from chainrule.names import not_offered, public_names
from chainrule.names.module_calls import MODULE_CALLS
from chainrule.nn import functional

PAGE = Path(__file__).parents[1] / "docs" / "pytorch_names.md"
INTERNAL = {
    "boolean_dispatch",
    "handle_torch_function",
    "assert_int_or_pair",
    "ScalingType",
    "SwizzleType",
}
"""What PyTorch's modules show besides, which is no part of them."""
HEAD = """# PyTorch's names

Every function of `torch`, every method and attribute of `torch.Tensor`, every class of `torch.nn`,
`torch.optim` and its schedulers and every function of `torch.nn.functional`, as PyTorch lists them,
and what to write here. A name that is not offered is an error that says the same. Families of names
that one sentence answers have one row. Where a name means something else here stands in
[against_pytorch.md](against_pytorch.md). `scripts/pytorch_names.py` writes this page, and a test
compares it.
"""
IN_PLACE = "in place, `name_`", "nothing is changed in place: write what there is for `name`"
"""The family of methods that change their tensor: what its row says."""


def names(module: Any, kind: Any) -> list[str]:
    """The public names of PyTorch's module that are of a kind and of its own."""
    found = [(n, getattr(module, n)) for n in dir(module) if not n.startswith("_")]
    return [
        n
        for n, x in found
        if kind(x) and n not in INTERNAL and not n.startswith("has_torch")
        and str(getattr(x, "__module__", None)).startswith(("torch", "None"))
    ]  # fmt: skip


def _is_function(x: Any) -> bool:
    return inspect.isfunction(x) or inspect.isbuiltin(x)


def _is_scheduler(x: Any) -> bool:
    return isinstance(x, type) and "LR" in x.__name__ + "LR" and hasattr(x, "get_last_lr")


def _is_called(x: Any) -> bool:
    return callable(x) and not isinstance(x, type)


def sections() -> Iterator[tuple[str, list[str], Any, dict[str, str], str]]:
    """For each: title, PyTorch's names, home of ours, what to write instead, how ours is called."""
    yield "torch", names(torch, _is_called), chainrule, MODULE_CALLS, "cr"
    members = [n for n in dir(torch.Tensor) if not n.startswith("_")]
    yield "torch.Tensor", members, chainrule.Tensor, {}, "x"
    classes = names(torch.nn, inspect.isclass)
    yield "torch.nn", classes, nn, not_offered.LAYERS, "nn"
    optimizers = names(torch.optim, inspect.isclass)
    yield "torch.optim", optimizers, optim, not_offered.OPTIMIZERS, "optim"
    schedulers = names(torch.optim.lr_scheduler, _is_scheduler)
    yield "torch.optim.lr_scheduler", schedulers, optim, not_offered.OPTIMIZERS, "optim"
    functions = names(torch.nn.functional, _is_function)
    yield "torch.nn.functional", functions, functional, not_offered.FUNCTIONS, "nn.functional"


def text() -> str:
    """The page."""
    parts = [HEAD]
    for title, found, ours, instead, called in sections():
        rows: list[str] = []
        families: dict[tuple[str, str], list[str]] = {}
        offered = [n for n in found if is_offered(ours, n)]
        for name in found:
            family = None if name in offered else family_row(ours, name)
            if family is not None:
                families.setdefault(family, []).append(name)
                continue
            there = name in offered
            what = f"`{called}.{name}`" if there else instead.get(name) or hint(ours, name)
            rows.append(f"| `{name}` | {what} | {'0.1.0' if there else ''} |")
        rows += [
            f"| {family}: {', '.join([f'`{n}`' for n in members])} | {advice} |  |"
            for (family, advice), members in sorted(families.items())
        ]
        parts.append(
            f"## {title}: {len(offered)} of {len(found)}\n\n"
            + "| PyTorch | here | since |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )  # fmt: skip
    return "\n".join(parts)


def is_offered(ours: Any, name: str) -> bool:
    """Whether ours has the name, and not only what to write in its place."""
    if isinstance(ours, type):
        return name in dir(ours)
    if ours is chainrule:  # where a module may have the name of a function of PyTorch's
        return name in public_names.imports_of("chainrule")
    return name in vars(ours)


def family_row(ours: Any, name: str) -> tuple[str, str] | None:
    """Title and advice of the family that answers for a name of `torch` or of a tensor."""
    if ours not in (chainrule, chainrule.Tensor):
        return None
    said = hint(ours, name)
    family = not_offered.family_of(name)
    if family is not None and said == family.advice:
        return family.title, family.advice
    return IN_PLACE if name.endswith("_") and said.startswith("nothing is changed") else None


def hint(ours: Any, name: str) -> str:
    """What the error says."""
    try:
        getattr(ours, name)
    except AttributeError as error:
        return str(error).partition("': ")[2]
    return ""


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PAGE.write_text(text(), encoding="utf-8")
