"""A PyTorch model with its loss: what ran in it, part by part, and the whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chainrule.errors import ConfigError
from chainrule.verify.ledger import Skipped
from chainrule.verify.pytorch.calls import CallSubject
from chainrule.verify.pytorch.convert import elements, is_float
from chainrule.verify.pytorch.cropped_calls import is_plausible
from chainrule.verify.pytorch.flat_arguments import (
    Call,
    call_of,
    coefficients_call,
    floats_in,
    module_call,
)
from chainrule.verify.pytorch.observing.function_calls import capturing
from chainrule.verify.pytorch.observing.recording import Ran, Recording, recording
from chainrule.verify.pytorch.replays import Replay
from chainrule.verify.subject import Subject
from chainrule.verify.user_code import MODEL_NAMES, place_of, required_names

DIRECT = 2_000
"""Parameters of a model up to which the whole is verified number by number."""
_SECONDS = 1.0
"""A forward that takes longer is not repeated as often as the whole would need."""


@dataclass(eq=False)
class ModelSubjects:
    """What is to be verified of a model, the parts first, and what is not."""

    subjects: list[Subject] = field(default_factory=list[Subject])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    upstream: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """For the name of a backward that looks wrong, modules whose gradients pass through it."""


def model_subjects(model: nn.Module, batch: Any, loss: Any = None) -> ModelSubjects:
    """Run the model once on the batch and make subjects of what ran.

    In this order: each user-defined `autograd.Function`, modules (leaves, modules with hooks, the
    innermost of the user's own), ops between them, each kind once; and the loss as a function of
    all parameters. For `batch` and `loss` see `step_of`.

    The model is left as it was: buffers, gradients, mode and random streams.
    """
    whole = ModelWithLoss(model, loss)
    found = ModelSubjects()
    replay = Replay.of((batch, list(model.parameters())))
    owners, functions, ran = _run_once(whole, batch, found, replay)
    found.subjects += functions
    wrong: list[str] = []
    for owner, f in zip(owners, functions, strict=True):
        if not _plausible(f):
            wrong.append(owner)
            found.upstream[f.name] = [n for n in ran.entered_names if _inside(n, [owner])]
    for r in ran.modules:
        if _inside(r.name, wrong):
            found.skipped.append(Skipped(r.name, "a backward inside it is wrong"))
            continue
        _add(found, r.name, lambda r=r: CallSubject(_module(r), 1, "reverse"))
    for r in ran.ops:
        _add(found, r.name, lambda r=r: CallSubject(_op(r), 1, "reverse"))
    if wrong:
        found.skipped.append(Skipped("model", "a backward inside it is wrong"))
        return found
    call = _whole(whole, batch, replay)
    seconds = _seconds(call)
    if seconds > _SECONDS:
        why = f"one run takes {seconds:.1f} s: its parts are verified, the loss as a whole is not"
        found.skipped.append(Skipped("model", why))
    else:
        _add(found, "model", lambda: CallSubject(call, 1, "reverse"))
    return found


def _run_once(
    whole: ModelWithLoss, batch: Any, found: ModelSubjects, replay: Replay
) -> tuple[list[str], list[Subject], Recording]:
    """Run the model with its loss once, and take what ran as subjects."""
    with ExitStack() as stack:
        stack.callback(_restoring(whole))
        stack.enter_context(replay.streams.replayed())
        stack.enter_context(torch.enable_grad())
        ran = stack.enter_context(recording(whole.model))
        captured = stack.enter_context(capturing(owner=ran.owner))
        ys = [y for y in floats_in(whole(_copy_of(batch))) if y.requires_grad]
        if ys and captured.hidden:  # checkpointed: a graph is there when the backward recomputes
            torch.autograd.backward(ys, [torch.ones_like(y) for y in ys])
    subjects = captured.subjects()
    found.skipped += [*captured.skipped, *ran.skipped]
    return captured.owners, subjects, ran


def _plausible(subject: Subject) -> bool:
    """Whether a first look finds nothing wrong. If it does, what contains it need not be searched
    for mistakes: it would only show this one again."""
    try:
        return is_plausible(subject)
    except Exception:
        return True


def _inside(name: str, owners: Sequence[str]) -> bool:
    return any((owner + ".").startswith(name + ".") for owner in owners)


def _restoring(whole: ModelWithLoss) -> Callable[[], None]:
    """What puts buffers and gradients back."""
    buffers = [(b, b.detach().clone()) for b in whole.buffers()]
    grads = [(p, p.grad) for p in whole.parameters()]
    for p, _ in grads:
        p.grad = None

    def restore() -> None:
        with torch.no_grad():
            for b, value in buffers:
                b.copy_(value)
        for p, g in grads:
            p.grad = g

    return restore


def _copy_of(batch: Any) -> Any:
    return pytree.tree_map_only(Tensor, lambda x: x.detach().clone(), batch)  # pyright: ignore


def _add(found: ModelSubjects, name: str, make: Callable[[], Subject]) -> None:
    try:
        found.subjects.append(make())
    except Exception as error:
        found.skipped.append(Skipped(name, f"{error}"))


def _module(ran: Ran) -> Call:
    call = module_call(ran.what, ran.args, ran.kwargs, name=ran.name)
    return replace(call, replay=ran.replay)


def _op(ran: Ran) -> Call:
    call = call_of(ran.what, ran.args, ran.kwargs, name=ran.name)
    return replace(call, kind="PyTorch op", place=ran.place, replay=ran.replay)


def _seconds(call: Call) -> float:
    """How long a run takes."""
    replay = call.replay or Replay.of(call.args)
    with torch.enable_grad(), replay.running(call.args):
        start = time.perf_counter()
        call.run(call.args)
        return time.perf_counter() - start


def _whole(whole: ModelWithLoss, batch: Any, replay: Replay) -> Call:
    """The loss by its parameters: by name, or where they are many, along one direction each."""
    call = replace(
        module_call(whole, (batch,), name="model"),
        kind="loss of a model",
        place=place_of(type(whole.model).forward),
        replay=replay,
    )
    call = replace(call, names=tuple([n.removeprefix("model.") for n in call.names]))
    trained: Sequence[Tensor] = [p for p in whole.parameters() if p.requires_grad]
    if elements(trained) <= DIRECT and len(trained) <= 8:
        return call
    moved = [i for i, x in enumerate(call.args) if is_float(x) and x.requires_grad]
    return coefficients_call(call, moved)


Step = Callable[[nn.Module, Any], Any]
"""From a model and a batch to what is to be differentiated."""


class ModelWithLoss(nn.Module):
    """A model together with its loss: `forward(batch)` is the loss, or what the model returns."""

    def __init__(self, model: nn.Module, loss: Any) -> None:
        super().__init__()
        self.model = model
        self.criterion = loss if isinstance(loss, nn.Module) else None
        self._step = step_of(loss)

    def forward(self, batch: Any) -> Any:
        """What is differentiated."""
        return self._step(self.model, batch)


def step_of(loss: Any) -> Step:
    """The step that `loss` describes.

    None: `model(*batch)` is differentiated itself (or its `loss`, where the result has one).
    `loss(model, batch)`: if the first parameter is called model, net or so. `loss(output)` and
    `loss(output, target)` otherwise; the target is the last part of the batch.

    Raises `ConfigError` for anything else.
    """
    if loss is None:
        return lambda model, batch: _loss_of(_run(model, batch))
    stated = required_names(loss.forward if isinstance(loss, nn.Module) else loss)
    names = ["output", "target"] if stated is None else stated
    if names and names[0] in MODEL_NAMES:
        return lambda model, batch: loss(model, batch)
    if len(names) == 1:
        return lambda model, batch: loss(_run(model, batch))
    if len(names) == 2 or isinstance(loss, nn.Module):
        return lambda model, batch: _with_target(model, batch, loss)
    raise ConfigError(
        f"loss takes {', '.join(names) or 'no arguments'}: give loss(output), "
        f"loss(output, target) or loss(model, batch)"
    )


def _run(model: nn.Module, batch: Any) -> Any:
    if isinstance(batch, Mapping):
        return model(**cast("Mapping[str, Any]", batch))
    if isinstance(batch, tuple | list):
        return model(*cast("Sequence[Any]", batch))
    return model(batch)


def _with_target(model: nn.Module, batch: Any, loss: Any) -> Any:
    if not isinstance(batch, tuple | list) or len(cast("Sequence[Any]", batch)) < 2:
        raise ConfigError(
            "loss(output, target) needs a batch of at least two parts, (input, target): "
            "give loss(output) or loss(model, batch) for other batches"
        )
    parts = cast("Sequence[Any]", batch)
    return loss(model(*parts[:-1]), parts[-1])


def _loss_of(result: Any) -> Any:
    """The loss in what a model returns, if there is one by that name or if one part is scalar."""
    if isinstance(result, Mapping) and "loss" in result:
        return cast("Mapping[str, Any]", result)["loss"]
    named = getattr(cast("Any", result), "loss", None)
    if isinstance(named, Tensor):
        return named
    parts: Sequence[Any] = (
        list(cast("Sequence[Any]", result)) if isinstance(result, tuple | list) else []
    )
    if parts:
        scalars = [x for x in parts if isinstance(x, Tensor) and x.dim() == 0 and x.requires_grad]
        if len(scalars) == 1:
            return scalars[0]
    return cast("Any", result)
