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
from chainrule.engine.graph import Variable, recording, variable
from chainrule.engine.op import new_op
from chainrule.engine.tensors import Tensor, asarray
from chainrule.errors import ShapeError
from chainrule.verify.arrays.convention import listed
from chainrule.verify.arrays.standin import follow
from chainrule.verify.copies import twin
from chainrule.verify.flow import trace
from chainrule.verify.needed import needed
from chainrule.verify.own.call import is_array, leaves_of
from chainrule.verify.place import Place
from chainrule.verify.reading import argument_names, place_of, source_of, with_forward
from chainrule.verify.streams import Stream, drawn, replayed
from chainrule.verify.subject import Array, Flow, Input, Source, Subject

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
        with replayed(self.streams):
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
        with replayed(self.streams), recording(False):
            call, arrays, ys = self._ran(xs)
            held = between()
            call._restore(tuple(ys) if call.many else ys[0], arrays)
            sent = iter([variable(twin(g)) for g in gs])
            full = [
                next(sent) if y.dtype.kind in INEXACT else variable(np.zeros(y.shape, y.dtype))
                for y in ys
            ]
            bars = listed(self.function.backward(call.ctx, *full))
        del held
        if len(bars) != len(xs):
            raise ShapeError(
                f"{self.name}.backward returned {len(bars)} gradients; forward takes {len(xs)} "
                "arguments: return one for each, None where none is needed"
            )
        return tuple([None if b is None else np.asarray(asarray(b).value) for b in bars])

    def flow(self, xs: Sequence[Any]) -> Flow | None:
        """The forward, run outside of the `Function`; one that takes arrays out of its tensors, as
        if they were tensors still."""
        wanted = [x.wanted for x in self.inputs]
        with replayed(self.streams):
            found = trace(self._traced, xs, wanted)
        if found is not None:
            return found
        expected = self.forward(xs)
        with replayed(self.streams):
            return follow(self._followed, xs, wanted, [self.function.forward], expected)

    def _traced(self, *xs: Any) -> list[Tensor]:
        args = [variable(x) if isinstance(x, np.ndarray) else x for x in xs]
        return self._run(Context(tuple([x.wanted for x in self.inputs])), args)

    def _followed(self, *xs: Any) -> list[Tensor]:
        context = Context(tuple([x.wanted for x in self.inputs]))
        context.save_for_backward = lambda *_: None  # There will be no backward.
        args = [variable(x) if isinstance(x, np.ndarray) else x for x in xs]
        return self._run(context, [_Given(x) if isinstance(x, Tensor) else x for x in args])

    def _run(self, context: Context, args: Sequence[Any]) -> list[Tensor]:
        outs = [asarray(y) for y in listed(self.function.forward(context, *args))]
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


@dataclass(frozen=True, eq=False)
class Pushed(Subject):
    """The jvp that a `Function` states, as a subject: its Jacobian, column by column."""

    stated: Stated
    name: str
    inputs: tuple[Input, ...]
    kind: str = f"{_KIND}, forward mode"
    place: Place | None = None
    backward_place: Place | None = None

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """Those results of forward that have a gradient."""
        return self.stated.forward(xs)

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """<g, jvp e> for every unit tangent e."""
        return tuple(
            [self._row(xs, gs, i) if x.wanted else None for i, x in enumerate(self.stated.inputs)]
        )

    def _row(self, xs: Sequence[Any], gs: Sequence[Array], i: int) -> Array:
        x = np.asarray(xs[i])
        out: Array = np.zeros(x.size, x.dtype)
        for j in range(x.size):
            t = np.zeros(x.size, x.dtype)
            t[j] = 1
            dots = self._pushed(xs, i, t.reshape(x.shape))
            out[j] = sum([np.sum(g * d) for g, d in zip(gs, dots, strict=True)])
        return out.reshape(x.shape)

    def _pushed(self, xs: Sequence[Any], i: int, t: Array) -> list[Array]:
        with replayed(self.stated.streams), recording(False):
            call, arrays, ys = self.stated._ran(xs)
            call._restore(tuple(ys) if call.many else ys[0], arrays)
            ts = [variable(t) if k == i else None for k in range(len(xs))]
            dots = listed(self.stated.function.jvp(call.ctx, *ts))
        return [
            np.asarray(d.value if isinstance(d, Variable) else d)
            for d, y in zip(dots, ys, strict=True)
            if y.dtype.kind in INEXACT
        ]

    @property
    def fixed(self) -> str:
        """One pass per element is too much for more of them."""
        return "its forward mode is checked at the captured sizes only"


_PUSHED = 256
"""Up to how many elements of all inputs the stated jvp is checked."""


def subject_of_function(
    function: type[Function],
    args: Sequence[Any],
    *,
    name: str | None = None,
    needs: Sequence[bool] | None = None,
) -> Stated:
    """The subject of a `Function` at the arguments of its `apply`.

    Tensors and arrays of floats are wanted, if the call needed their gradients (`needs`; see
    `_required`) or backward gives them; all other arguments stay what they are.
    Raises `GradientError` if there is nothing to differentiate.
    """
    names = argument_names(function.forward, len(args) + 1)[1:]
    inputs: tuple[Input, ...] = tuple(
        [leaf for n, a in zip(names, args, strict=True) for leaf in _input(n, a)]
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
    _, streams = drawn(lambda: made.forward(xs), (function.forward, function.backward))
    return _expected(replace(made, streams=streams), _required(args) if needs is None else needs)


def _required(args: Sequence[Any]) -> list[bool]:
    """For which arguments a call asks for gradients: tensors that require one; if there are none,
    tensors. An array beside tensors is a constant: labels, a mask."""
    tensors = [isinstance(a, Tensor) for a in args]
    asked = [isinstance(a, Tensor) and a.requires_grad for a in args]
    return asked if any(asked) else tensors


def _expected(made: Stated, needs: Sequence[bool]) -> Stated:
    """The subject, with the gradients only that are to be looked at."""
    xs = [x.value for x in made.inputs]
    floats = [x.wanted for x in made.inputs]

    def wanting(wants: Sequence[bool]) -> Stated:
        pairs = zip(made.inputs, wants, strict=True)
        return replace(made, inputs=tuple([replace(x, wanted=w) for x, w in pairs]))

    def pull(wants: Sequence[bool]) -> tuple[Array | None, ...]:
        some = wanting(wants)
        return some.pull(xs, [np.ones_like(y) for y in some.forward(xs)])

    required = [f and bool(n) for f, n in zip(floats, needs, strict=True)]
    return wanting(needed(floats, required, pull))


def _input(name: str, arg: Any) -> list[Input]:
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
    """The backward's subject and, if the class states a jvp and is small here, the jvp's."""
    stated = subject_of_function(function, args, name=name, needs=needs)
    size = sum([x.value.size for x in stated.inputs if x.wanted])
    if function.jvp is Function.jvp or size > _PUSHED:
        return [stated]
    at = place_of(function.jvp)
    pushed = Pushed(
        stated, f"{stated.name}.jvp", stated.inputs, place=stated.place, backward_place=at
    )
    return [stated, pushed]
