"""A whole model of chainrule's: what flows through it is verified part by part, then the whole.

One run of the loss tells which ops ran on which values. Each distinct op is a subject of its own,
user-defined ones first; so is each module with backward hooks; the loss as a function of all
parameters is the last.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np

from chainrule.engine.function import Call as UserCall
from chainrule.engine.graph import Variable, apply, intercept_ops, order, recording
from chainrule.engine.op import Op, Spec
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ConfigError, ShapeError
from chainrule.nn.base.module import Module
from chainrule.verify.certifying.certify import certify
from chainrule.verify.certifying.stages import certified_after, merged
from chainrule.verify.finding import Finding, Name
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.own.call import flows, is_array, results_of, subject_of_op
from chainrule.verify.own.certified_function import explain_by_cuts
from chainrule.verify.own.function import arguments, subjects_of_function
from chainrule.verify.own.module import holding, subject_of_module
from chainrule.verify.place import Place
from chainrule.verify.reporting.report import Report
from chainrule.verify.subject import Subject
from chainrule.verify.user_code import (
    MODEL_NAMES,
    argument_names,
    place_at,
    place_of,
    required_names,
)

_LARGEST = 1 << 18
"""Elements of an op's inputs up to which it is verified by itself."""
_MOST = 200
"""How many distinct ops."""


@dataclass(eq=False)
class Run:
    """What one run of a model showed."""

    functions: list[Subject] = field(default_factory=list[Subject])
    ops: list[Subject] = field(default_factory=list[Subject])
    modules: list[Subject] = field(default_factory=list[Subject])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    unreached: list[Finding] = field(default_factory=list[Finding])


def loss_of(model: Module, batch: Any, loss: Callable[..., Any] | None) -> tuple[Any, list[Any]]:
    """A function of arguments that runs the model and its loss, and those arguments.

    `loss(model, batch)` if its first parameter is called so, `loss(output, target)` with the
    batch's last part as target, or `loss(output)`; without a loss the model's own result. Raises
    `ConfigError` if there are not enough parts for it.
    """
    parts = list(cast("Sequence[Any]", batch)) if isinstance(batch, tuple | list) else [batch]
    if loss is None:
        return model.__call__, parts
    needed = required_names(loss) or []
    if needed and needed[0] in MODEL_NAMES:
        return partial(loss, model), [batch]
    if len(needed) == 1:
        return _Composed(model, loss, 0), parts
    if len(parts) < 2:
        raise ConfigError(
            "model: the loss takes an output and a target, but the batch has one part; give "
            "(input, target), or a loss(model, batch)"
        )
    return _Composed(model, loss, 1), parts


@dataclass(frozen=True, eq=False)
class _Composed:
    """The loss of the model's result and the last `targets` of the arguments."""

    model: Module
    loss: Callable[..., Any]
    targets: int

    def __call__(self, *args: Any) -> Any:
        at = len(args) - self.targets
        return self.loss(self.model(*args[:at]), *args[at:])


def _names(model: Module, run: Any, count: int) -> tuple[str, ...]:
    """Names of the batch's parts: what the model's forward calls them, and the target."""
    targets = run.targets if isinstance(run, _Composed) else 0
    if isinstance(run, partial):
        return ("batch",)
    named = argument_names(model.forward, count - targets)
    return (*named, *["target"] * targets)


def observe_run(model: Module, run: Callable[..., Any], args: Sequence[Any]) -> Run:
    """The subjects of what ran while `run(*args)` did, and which parameters it did not reach."""
    found = Run()
    known: set[Any] = set()
    tensors = [t for _, t in model.named_parameters()]

    def look(op: Op, xs: Sequence[Any]) -> Any:
        y: Any = apply(op, *xs)
        if _flows(xs) and not op.passes:
            _note(found, known, op, xs, y)
        return y

    with holding(model, tensors, tensors), _calls(model, found), recording(True):
        with intercept_ops(look):
            outs = results_of(run(*args), "the model")
        reached = set(order([o.node for o in outs if o.node is not None and o.node.needs]))
        for name, t in model.named_parameters():
            if t.node not in reached:
                found.unreached.append(_no_gradient(model, name, t))
    return found


def _flows(xs: Sequence[Any]) -> bool:
    return any(flows(x) for x in xs)


def _note(found: Run, known: set[Any], op: Op, xs: Sequence[Any], y: Any) -> None:
    """A subject for `op` at xs, unless one like it is there."""
    values = [x.value if isinstance(x, Variable) else x for x in xs]
    if any(type(v) is Spec for v in values):
        return
    shapes = tuple([(v.shape, str(v.dtype)) if is_array(v) else v for v in values])
    user = isinstance(op, UserCall)
    args, needs = arguments(op, xs) if user else ([], ())
    key = (op.function, repr(op.static), shapes, needs) if user else (op, shapes)
    if key in known:
        return
    known.add(key)
    place = _made_at(y)
    if sum([v.size for v in values if is_array(v)]) > _LARGEST:
        found.skipped.append(Skipped(op.name, f"its arguments are large, at {place}"))
    elif user:
        found.functions += subjects_of_function(op.function, args, needs=needs)
    elif len(found.ops) >= _MOST:
        found.skipped.append(Skipped(op.name, f"{_MOST} ops are looked at already, at {place}"))
    elif (subject := subject_of_op(op, values, place=place)) is not None:
        found.ops.append(subject)


def _made_at(y: Any) -> Place | None:
    """The user's line that made the result of an op."""
    node = cast("tuple[Any, ...]", y)[0].node if isinstance(y, tuple) else y.node
    return None if node is None else place_at(node.code, node.line)


@contextmanager
def _calls(model: Module, found: Run) -> Generator[None]:
    """Within it, the first call of every module with backward hooks becomes a subject."""
    hooked = [(n, m) for n, m in model.named_modules() if n and _has_backward_hooks(m)]
    for name, module in hooked:
        _watch(name, module, found)
    try:
        yield
    finally:
        for _, module in hooked:
            vars(module).pop("forward", None)


def _has_backward_hooks(module: Module) -> bool:
    hooks = module._hooks  # pyright: ignore[reportPrivateUsage]
    return hooks is not None and bool(hooks.backward or hooks.backward_pre)


def _watch(name: str, module: Module, found: Run) -> None:
    forward = module.forward

    def told(*args: Any, **kwargs: Any) -> Any:
        vars(module).pop("forward", None)
        plain = [a.detach() if isinstance(a, Tensor) else a for a in args]
        if not kwargs:
            made = subject_of_module(module, module, plain, name=name, place=place_of(type(module)))
            found.modules.append(made)
        return forward(*args, **kwargs)

    vars(module)["forward"] = told


def _no_gradient(model: Module, name: str, t: Any) -> Finding:
    because = "the loss does not depend on it: no path of the graph leads there"
    place: Place | None = place_of(type(model).forward)
    return Finding(
        "warning",
        type(model).__name__,
        "module",
        name,
        (Name("no_gradient", because),),
        place=place,
        evidence=(f"{name}, {t.dtype} {t.shape}: {because}",),
    )


def certified_model(model: Module, batch: Any, loss: Callable[..., Any] | None) -> Report:
    """The report on a model and its loss at a batch; see `verify.model`.

    The whole is looked at where its parts are right: what it does wrong then is its own doing.
    """
    run, parts = loss_of(model, batch, loss)
    args = [asarray(x) if isinstance(x, np.ndarray) else x for x in parts]
    if any(is_array(x) and np.size(x) == 0 for x in args):
        raise ShapeError("model: the batch is empty; give at least one example")
    name = type(model).__name__
    whole = subject_of_module(model, run, args, name=name, names=_names(model, run, len(args)))
    found = observe_run(model, run, args)
    ledger = Ledger(skipped=found.skipped)
    parts = [*found.functions, *found.modules, *found.ops]
    upstream = {part.name: [name] for part in parts}
    report = certify(name, parts, upstream=upstream, ledger=ledger)
    findings = list(report.findings)
    known: set[str] = set()
    if report.ok:
        of_whole = certified_after(name, [whole], ledger)
        known = {f.input for f in of_whole}
        findings += explain_by_cuts(of_whole, whole)
    else:
        why = "a part of it is wrong, which makes its gradients wrong: correct that first"
        ledger.skipped.append(Skipped(name, why))
    findings += [f for f in found.unreached if f.input not in known]
    return Report(name, merged(findings), ledger)
