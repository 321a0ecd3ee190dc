"""What a user calls: each makes subjects of what it is given and has them certified.

What it is given decides whose adapters are asked: chainrule's, PyTorch's or those for NumPy code.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chainrule.engine.function import Function
from chainrule.errors import ConfigError, describe
from chainrule.nn.base.module import Module
from chainrule.verify.faces.request_errors import with_request_in_errors
from chainrule.verify.faces.torch_detection import holds_torch, is_torch, is_torch_module
from chainrule.verify.ledger import Ledger
from chainrule.verify.user_code import name_of

if TYPE_CHECKING:
    from chainrule.verify.arrays.roles import Side
    from chainrule.verify.reporting.report import Report
    from chainrule.verify.subject import Subject

__all__ = ["assert_gradients", "check", "function", "model", "pair"]


def _certified(what: str, subjects: Sequence[Subject], **options: Any) -> Report:
    from chainrule.verify.certifying.certify import certify

    return certify(what, subjects, **options)


# --- Functions -----------------------------------------------------------------------------------


@with_request_in_errors
def check(f: Callable[..., Any], *args: Any, order: int = 1) -> Report:
    """Verify the derivative that an engine makes of the function `f` at `args`.

    Works for functions of tensors, of arrays (by NumPy's protocols), of `Value`s, for ops, modules
    and `Function` classes; with PyTorch's tensors among `args`, for functions of those. Arguments
    are tensors, arrays, numbers, or dicts, lists and dataclasses of them; gradients are expected
    for all that hold floats. Integers are indices, labels, settings. Give small arrays: shapes that
    differ from each other, values as they occur.

    Both reverse and forward mode are held against differences, at the point and at others, in
    float64 and in the dtype given. With `order=2`, the derivative of the derivative is verified as
    well, and so on. Ops that users define inside `f` are verified by themselves, too.

    Raises `GradientError` if nothing can be differentiated. What `f` raises comes out as it is,
    with a note that says what was asked.

    >>> import numpy as np
    >>> from chainrule import verify
    >>> report = verify.check(lambda x, w: np.tanh(x @ w), np.ones((2, 3)) / 3, np.eye(3)[:, :2])
    >>> report.ok
    True
    """
    if order < 1:
        raise ConfigError(f"check: order is 1 or more, not {order}")
    if isinstance(f, type) and (issubclass(f, Function | Module) or is_torch(f)):
        return function(f, *args)
    if is_torch(f) or holds_torch(args):
        from chainrule.verify.pytorch.calls import subjects_of_call

        ledger = Ledger()
        subjects = subjects_of_call(f, args, order=order, skipped=ledger.skipped)
        return _certified(name_of(f), subjects, ledger=ledger)
    return _checked(cast("Callable[..., Any]", f), args, order)


def _checked(f: Callable[..., Any], args: Sequence[Any], order: int) -> Report:
    """The report on chainrule's derivatives of `f`."""
    from chainrule.verify.own.call import subject_of_call
    from chainrule.verify.own.certified_function import certified_call
    from chainrule.verify.own.module import subject_of_module
    from chainrule.verify.own.scalars import holds_values, subject_of_values

    if holds_values(args):
        return _certified(name_of(f), [subject_of_values(f, args)])
    call = subject_of_module(f, f, args) if isinstance(f, Module) else subject_of_call(f, args)
    return certified_call(call, order)


@with_request_in_errors
def function(fn: Any, *args: Any) -> Report:
    """Verify what a user's `Function` states: its backward, and its jvp if it has one.

    `fn` is a subclass of chainrule's `Function` or of `torch.autograd.Function`, `args` what its
    `apply` is called with; gradients are expected for tensors, those that require one if any does,
    and for what the backward gives one for; if there is no tensor, for all arrays of floats.

    A module, or the class of one that needs no arguments, is verified as by `check`.

    Raises `ConfigError` for anything else.

    >>> import chainrule as cr
    >>> from chainrule import verify
    >>> class Square(cr.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return x * g
    >>> verify.function(Square, cr.tensor([0.5, -1.5, 2.5])).findings[0].title
    'wrong constant factor'
    """
    if isinstance(fn, type) and issubclass(fn, Function):
        from chainrule.verify.own.function import subjects_of_function

        return _certified(fn.__name__, subjects_of_function(fn, args))
    if isinstance(fn, type) and is_torch(fn) and not is_torch_module(fn):
        from chainrule.verify.pytorch.functions import subjects_of_function

        return _certified(name_of(fn), subjects_of_function(fn, args))
    made = _made(fn) if isinstance(fn, type) else fn
    if isinstance(made, Module) or is_torch_module(made):
        return check(made, *args)
    raise ConfigError(
        f"function: {describe(fn)} is no Function class of chainrule's or PyTorch's; use "
        "verify.check(f, *args) for functions, verify.pair(forward, backward, *args) for NumPy code"
    )


def _made(cls: type) -> Any:
    """An object of a class of modules; None of any other class."""
    if not issubclass(cls, Module) and not is_torch_module(cls):
        return None
    try:
        return cls()
    except TypeError as cause:
        raise ConfigError(
            f"function: {cls.__name__} cannot be made without arguments; give a module, not its "
            "class"
        ) from cause


# --- NumPy ---------------------------------------------------------------------------------------


@with_request_in_errors
def pair(
    forward: Any,
    *args: Any,
    cotangent: Side | None = None,
    cache: bool | None = None,
    wrt: Sequence[str | int] | None = None,
) -> Report:
    """Verify a backward that was written by hand in NumPy.

    `pair(forward, backward, *args)`: two functions. The backward's parameters are told by their
    names (`g`, `dout`, `grad_output`; the forward's own arguments; `cache`; the output), so
    `backward(g, x, w)`, `backward(x, w, g)`, `backward(dout, cache)` after a forward that returns
    (y, cache), and `backward(g, y)` all work. It returns an array, a tuple in the order of the
    arguments, or a dict by name. Where names do not tell, say `cotangent="first"` or "last", or
    `cache=True`. `wrt` names the arguments (or their places) that have a gradient; by default all
    arrays of floats have one, and the Python floats for which the backward gives one.

    `pair(layer, *args)`: an object with `forward` and `backward`, layers in it (attributes, lists)
    included: each is verified by itself, on the values that flowed. Parameters are its arrays, in
    attributes or in a dict `params`; gradients are looked for in `grads`, `dW`, `grad_W`, `W.grad`
    and among what backward returns. The object itself is left as it is. So is one whose two methods
    are given, `pair(layer.forward, layer.backward, *args)`.

    `pair(f, *args)`: one function, or a method, that gives a number and its gradients, as
    `loss, grads = net.loss(x, y)` and `cost, grad = f(theta, x)` do: gradients by name, or in the
    order of the arguments or parameters. `pair(net, *args)` finds the method `loss` by itself.

    Raises `ConfigError` if the backward's way of being called cannot be told.

    >>> import numpy as np
    >>> from chainrule import verify
    >>> report = verify.pair(np.sin, lambda g, x: g * -np.cos(x), np.array([0.3, 1.2, -0.7]))
    >>> report.findings[0].title
    'sign flipped'
    """
    options: dict[str, Any] = {"cotangent": cotangent, "cache": cache, "wrt": wrt}
    if args and (owner := _owner_of(forward, args[0], args[1:])) is not None:
        forward, args = owner, args[1:]
    elif args and callable(args[0]) and callable(forward) and not isinstance(args[0], np.ndarray):
        from chainrule.verify.arrays.pair import subject_of_pair

        made = subject_of_pair(forward, args[0], args[1:], **options)
        return _certified(made.name, [made])
    elif _is_routine(forward):
        from chainrule.verify.arrays.pair import subject_of_both

        owner = getattr(forward, "__self__", None)
        if not inspect.ismethod(forward) or isinstance(owner, type):
            made = subject_of_both(forward, args, wrt=wrt)
            return _certified(made.name, [made])
        options["method"], forward = forward.__name__, owner
    from chainrule.verify.arrays.networks.certified_network import certified_network

    return certified_network(forward, args, options)


def _is_routine(x: Any) -> bool:
    """Whether it is a function or a method, other than an object that can be called."""
    return inspect.isroutine(x) or isinstance(x, functools.partial)


def _owner_of(forward: Any, backward: Any, args: Sequence[Any]) -> Any:
    """The layer whose two methods these are; None if they are not."""
    owner = getattr(forward, "__self__", None)
    if owner is None or owner is not getattr(backward, "__self__", None):
        return None
    from chainrule.verify.arrays.methods import methods_of

    names = (getattr(forward, "__name__", ""), getattr(backward, "__name__", ""))
    return owner if methods_of(owner, args) == names else None


# --- Models --------------------------------------------------------------------------------------


@with_request_in_errors
def model(net: Any, batch: Any, loss: Callable[..., Any] | None = None) -> Report:
    """Verify a whole model: what its parts do on the values that flow, then the loss.

    `net` is a `Module` of chainrule's or PyTorch's. `batch` is what it is called with, a tuple for
    several arguments. `loss` is `loss(output)`, `loss(output, target)` with the last part of the
    batch as target, or `loss(model, batch)`; without it the model's own result is differentiated.

    Every user-defined `Function` that ran is verified by itself, every distinct op, every module
    with backward hooks, and the loss as a function of all parameters; parameters that get no
    gradient are named. The model is left as it was.

    Raises `ConfigError` for what is no model.

    >>> import chainrule as cr
    >>> from chainrule import nn, verify
    >>> net = nn.Linear(3, 2)
    >>> x, target = cr.tensor([[0.5, -1.0, 2.0]]), cr.tensor([[1.0, 0.5]])
    >>> verify.model(net, (x, target), loss=cr.mse_loss).ok
    True
    """
    if isinstance(net, Module):
        from chainrule.verify.own.model import certified_model

        return certified_model(net, batch, loss)
    if is_torch(net):
        from chainrule.verify.pytorch.models import model_subjects

        found = model_subjects(net, batch, loss)
        ledger = Ledger(skipped=found.skipped)
        return _certified(name_of(net), found.subjects, upstream=found.upstream, ledger=ledger)
    raise ConfigError(
        f"model: {describe(net)} is no Module of chainrule's or PyTorch's; use "
        "verify.pair(network, *args) for NumPy code with forward and backward, "
        "verify.check(f, *args) for functions"
    )


def assert_gradients(f: Any, *args: Any, **options: Any) -> None:
    """Raise `AssertionError`, whose message is the diagnosis, unless all gradients are right.

    For tests. `f`, `args` and `options` are those of `check`; a `Function` class is verified as by
    `function`, two functions or a NumPy layer as by `pair`.

    >>> import numpy as np
    >>> from chainrule import verify
    >>> verify.assert_gradients(lambda x: np.exp(-x) * x, np.array([0.5, -1.5]))
    """
    __tracebackhide__ = True
    report = _asserted(f, args, options)
    if not report.ok:
        raise AssertionError(str(report))


def _asserted(f: Any, args: Sequence[Any], options: dict[str, Any]) -> Report:
    two = bool(args) and callable(args[0]) and not hasattr(args[0], "dtype")
    if (
        two
        or not callable(f)
        or (hasattr(f, "backward") and not isinstance(f, type | Module) and not is_torch(f))
    ):
        return pair(f, *args, **options)
    return check(f, *args, **options)
