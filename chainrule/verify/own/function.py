"""A user's `Function` as a subject: its own forward, its own backward, as they are.

The engine refuses what does not fit (None, a wrong shape). Here it is to be seen, so backward is
called directly and what it returns is handed on.
"""

# pyright: reportPrivateUsage=false
# (the bookkeeping of one call of a Function is shared with this file, and with nobody else)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from chainrule.engine.dtypes import INEXACT
from chainrule.engine.function import Call as UserCall
from chainrule.engine.function import Context, Function
from chainrule.engine.graph import Variable, apply, intercept_ops, recording, variable
from chainrule.engine.op import Op, new_op
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ShapeError
from chainrule.verify.arrays.convention import as_list
from chainrule.verify.arrays.numpy_standin import follow
from chainrule.verify.copies import twin
from chainrule.verify.own.call import Call, flows, is_array, leaves_of
from chainrule.verify.own.derivation import derivation
from chainrule.verify.own.forward_mode import forward_mode_of
from chainrule.verify.place import Place
from chainrule.verify.streams import Stream, replay, streams_drawn
from chainrule.verify.subject import Array, Input, Source, Subject, needed_inputs, values
from chainrule.verify.user_code import argument_names, place_of, source_of, with_forward

_KIND = "chainrule.Function"


@dataclass(frozen=True, eq=False)
class Stated(Subject):
    """A `Function` at captured arguments, one input for each argument of its forward."""

    name: str
    inputs: tuple[Input, ...]
    function: type[Function]
    streams: tuple[Stream, ...] = ()
    kind: str = _KIND
    place: Place | None = None
    backward_place: Place | None = None

    def _ran(self, xs: Sequence[Any]) -> tuple[UserCall, list[Any], list[Array]]:
        """A call of forward at xs, the arrays that it was given, and its results."""
        places = tuple([i for i, x in enumerate(xs) if is_array(x)])
        static = tuple([None if i in places else x for i, x in enumerate(xs)])
        needs = tuple([x.wanted for x in self.inputs])
        call = cast(Any, new_op)(UserCall, self.function, Context(needs), places, static)
        arrays = [twin(np.asarray(xs[i])) for i in places]
        y = call.eval(*arrays)
        return call, arrays, list(y) if call.many else [y]

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Those results of forward that have a gradient."""
        with replay(self.streams):
            _, _, ys = self._ran(xs)
        return tuple([y for y in ys if y.dtype.kind in INEXACT])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What backward returned; raises `ShapeError` if that is not one thing per argument."""
        return self._pulled(xs, gs, lambda: None)

    def interrupted(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...]:
        """The same with another forward, and its backward, before the backward of this one, as
        where a network has two of them."""
        return self._pulled(xs, gs, lambda: self._pulled(others, gs, lambda: None))

    def _pulled(
        self, xs: Sequence[Any], gs: Sequence[Array], between: Callable[[], object]
    ) -> tuple[Array | None, ...]:
        """The cotangents that the user's backward gives, on a forward of its own."""
        with replay(self.streams), recording(False):
            call, arrays, ys = self._ran(xs)
            held = between()
            call._restore(tuple(ys) if call.many else ys[0], arrays)
            sent = iter([variable(twin(g)) for g in gs])
            full = [
                next(sent) if y.dtype.kind in INEXACT else variable(np.zeros(y.shape, y.dtype))
                for y in ys
            ]
            bars = as_list(self.function.backward(call.ctx, *full))
        del held
        if len(bars) != len(xs):
            raise ShapeError(
                f"{self.name}.backward returned {len(bars)} gradients; forward takes {len(xs)} "
                "arguments: return one for each, None where none is needed"
            )
        return tuple([None if b is None else np.asarray(asarray(b).value) for b in bars])

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """By the engine, of the forward run outside of the `Function`; of one that takes arrays out
        of its tensors, as if they were tensors still."""
        wanted, code = [x.wanted for x in self.inputs], [self.function.forward]
        with replay(self.streams):
            found = derivation(self._on_tensors, xs, wanted)
        if found is None:
            expected = self.forward(xs)
            with replay(self.streams):
                found = follow(self._followed, xs, wanted, code, expected)
        return None if found is None else found.pull(gs)

    def _on_tensors(self, *xs: Any) -> list[Tensor]:
        args = [variable(x) if isinstance(x, np.ndarray) else x for x in xs]
        return self._run(Context(tuple([x.wanted for x in self.inputs])), args)

    def _followed(self, *xs: Any) -> list[Tensor]:
        context = Context(tuple([x.wanted for x in self.inputs]))
        context.save_for_backward = lambda *_: None  # There will be no backward.
        args = [variable(x) if isinstance(x, np.ndarray) else x for x in xs]
        return self._run(context, [_Given(x) if isinstance(x, Tensor) else x for x in args])

    def _run(self, context: Context, args: Sequence[Any]) -> list[Tensor]:
        outs = [asarray(y) for y in as_list(self.function.forward(context, *args))]
        return [o for o in outs if o.dtype.kind in INEXACT]

    @property
    def functions(self) -> list[Callable[..., object]]:
        """Its methods, whether their text is known or not."""
        return [self.function.backward, self.function.forward]

    @property
    def source(self) -> Source | None:
        """The text of backward, and of forward."""
        backward = source_of(self.function.backward, lambda f: self._with("backward", f))
        return with_forward(backward, self.function.forward, lambda f: self._with("forward", f))

    def _with(self, method: str, f: Callable[..., Any]) -> Subject:
        changed = type(self.function.__name__, (self.function,), {method: staticmethod(f)})
        return replace(self, function=changed)


class _Given:
    """An argument of which the array is the tensor itself: what is done with it has a graph."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = self.value = self.data = tensor

    def numpy(self) -> Tensor:
        """The tensor."""
        return self._tensor

    def detach(self) -> _Given:
        """The same: where numbers are taken out, nothing is cut."""
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)


def subject_of_function(
    function: type[Function],
    args: Sequence[Any],
    *,
    name: str | None = None,
    needs: Sequence[bool] | None = None,
) -> Stated:
    """The subject of a `Function` at the arguments of its `apply`.

    Tensors and arrays of floats are wanted, if the call needed their gradients (`needs`; see
    `_required_arguments`) or backward gives them; all other arguments stay what they are.
    Raises `GradientError` if there is nothing to differentiate.
    """
    names = argument_names(function.forward, len(args) + 1)[1:]
    inputs: tuple[Input, ...] = tuple(
        [leaf for n, a in zip(names, args, strict=True) for leaf in _inputs_of(n, a)]
    )
    leaves_of(names, args)  # raises if there is nothing to differentiate
    made = Stated(
        name or function.__name__,
        inputs,
        function,
        place=place_of(function.forward),
        backward_place=place_of(function.backward),
    )
    xs = [x.value for x in inputs]
    _, streams = streams_drawn(lambda: made.forward(xs), (function.forward, function.backward))
    made = replace(made, streams=streams)

    def pull(some: tuple[Input, ...]) -> tuple[Array | None, ...]:
        tried = replace(made, inputs=some)
        return tried.pull(xs, [np.ones_like(y) for y in tried.forward(xs)])

    asked = _required_arguments(args) if needs is None else needs
    return replace(made, inputs=needed_inputs(inputs, asked, pull))


def _required_arguments(args: Sequence[Any]) -> list[bool]:
    """For which arguments a call asks for gradients: tensors that require one; if there are none,
    tensors. An array beside tensors is a constant: labels, a mask."""
    tensors = [isinstance(a, Tensor) for a in args]
    asked = [isinstance(a, Tensor) and a.requires_grad for a in args]
    return asked if any(asked) else tensors


def _inputs_of(name: str, arg: Any) -> list[Input]:
    if not is_array(arg):
        return [Input(name, arg, wanted=False)]
    value = np.array(arg.detach().value if isinstance(arg, Tensor) else arg)
    return [Input(name, value, value.dtype.kind in INEXACT)]


def subjects_of_function(
    function: type[Function],
    args: Sequence[Any],
    *,
    name: str | None = None,
    needs: Sequence[bool] | None = None,
) -> list[Subject]:
    """The backward's subject and, if the class states a jvp, that of forward mode by it."""
    stated = subject_of_function(function, args, name=name, needs=needs)
    pushed = None if function.jvp is Function.jvp else forward_mode_of(_as_call(stated))
    if pushed is None:
        return [stated]
    at = place_of(function.jvp)
    return [stated, replace(pushed, name=f"{stated.name}.jvp", backward_place=at)]


def _as_call(stated: Stated) -> Call:
    """The function as the engine runs it."""

    def run(*xs: Any) -> list[Tensor]:
        outs = [asarray(y) for y in as_list(stated.function.apply(*xs))]
        return [o for o in outs if o.dtype.kind in INEXACT]

    return Call(
        stated.name, stated.inputs, run, None, streams=stated.streams, place=stated.place
    )  # fmt: skip


def functions_in(call: Call) -> list[Subject]:
    """A subject for each distinct `Function` that ran in `call`, in order."""
    found: dict[Any, tuple[Any, list[Any], tuple[bool, ...]]] = {}

    def look(op: Op, xs: Sequence[Any]) -> Any:
        if isinstance(op, UserCall):
            args, needs = arguments(op, xs)
            shapes = tuple([(args[i].shape, args[i].dtype) for i in op.tensor_positions])
            key = (op.function, repr(op.static), shapes, needs)
            found.setdefault(key, (op.function, args, needs))
        return apply(op, *xs)

    with intercept_ops(look):
        call.run(values(call))
    return [
        s for f, args, needs in found.values() for s in subjects_of_function(f, args, needs=needs)
    ]


def arguments(op: UserCall, xs: Sequence[Any]) -> tuple[list[Any], tuple[bool, ...]]:
    """What a `Function` was applied to, and which of its arguments needed gradients."""
    args, needs = list(op.static), [False] * len(op.static)
    for i, x in zip(op.tensor_positions, xs, strict=True):
        args[i] = x.value if isinstance(x, Variable) else x
        needs[i] = flows(x)
    return args, tuple(needs)
