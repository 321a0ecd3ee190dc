"""Ops that users define: a class with `forward`, `backward` and, if they like, `jvp`.

The engine keeps what `save_for_backward` gets like any op's values: arguments and results stay
linked to the graph. So a backward that is written in tensor operations can be differentiated again.
What a backward returns is checked; a second derivative that would silently be wrong is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from chainrule.engine.graph import (
    Node,
    Variable,
    apply,
    is_recording,
    placeholder,
    recording,
    variable,
)
from chainrule.engine.op import Need, Op, Spec, Unchanged, new_op
from chainrule.engine.tensors import Tensor, asarray
from chainrule.engine.watch import Watch, watching
from chainrule.errors import DtypeError, GradientError, ShapeError, describe


class Context:
    """What a `Function` keeps between forward and backward; set attributes for plain values."""

    needs_input_grad: tuple[bool, ...]
    """For each argument of forward, whether a gradient flows to it."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._call = _Call()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward: arguments, results, or values in between."""
        for t in tensors:
            if t is not None and not isinstance(cast(object, t), Variable):
                raise DtypeError(
                    f"save_for_backward keeps tensors, not {describe(t)}; set it as an attribute"
                )
        self._call.saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, in order; arguments and results with their place in the graph."""
        return self._call.restored


@dataclass
class _Call:
    """What is known of one call besides what the user set on its context."""

    many: bool = False
    saved: tuple[Any, ...] = ()
    restored: tuple[Any, ...] = ()
    links: tuple[tuple[int | None, Any], ...] = ()
    """For each saved tensor (0, k) if it is result k, (1 + i, i) if argument i, else (None, it)."""
    specs: tuple[Spec, ...] = ()
    """Shape and dtype of each result."""
    traced: tuple[Sequence[Any], Sequence[Any]] = ((), ())
    """If forward was traced, its arguments and results there."""


class Function:
    """Base of user-defined ops; call them through `apply`.

    >>> class Square(cr.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = cr.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6., dtype=float32)
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """The value: a tensor or a tuple of tensors. Tensor arguments come without their graph."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *gs: Any) -> Any:
        """From the cotangent of each output those of all arguments of forward, None for what needs
        none. A cotangent that did not arrive is zeros."""
        raise NotImplementedError

    @staticmethod
    def jvp(ctx: Any, *ts: Any) -> Any:
        """From the tangent of each argument (None for none) those of the outputs. Optional: without
        it the transpose of backward is used."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward on `args` and record it. Only tensors among the arguments have gradients."""
        if cls.forward is Function.forward:
            raise NotImplementedError(f"{cls.__name__} has no forward")
        if cls.backward is Function.backward and cls.jvp is Function.jvp:
            raise NotImplementedError(f"{cls.__name__} has neither backward nor jvp")
        places = tuple([i for i, a in enumerate(args) if isinstance(a, Tensor | np.ndarray)])
        tensors = [asarray(args[i]) for i in places]
        needs = tuple([isinstance(a, Tensor) and a.requires_grad and is_recording() for a in args])
        static = tuple([None if i in places else a for i, a in enumerate(args)])
        return apply(new_op(Call, cls, Context(needs), places, static), *tensors)


class Call(Op):
    """One call of a user's Function: its context, where its tensors stand among the arguments."""

    function: type[Function]
    ctx: Context
    tensor_positions: tuple[int, ...]
    static: tuple[Any, ...]

    quiet: ClassVar[bool] = False
    of_user: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The class's name."""
        return self.function.__name__

    @property
    def call(self) -> _Call:
        """The bookkeeping of this call."""
        return self.ctx._call  # pyright: ignore[reportPrivateUsage]

    @property
    def many(self) -> bool:  # type: ignore[override]
        """Whether forward returned a tuple."""
        return self.call.many

    @property
    def states_vjp(self) -> bool:  # type: ignore[override]
        """Whether the class has a backward."""
        return self.function.backward is not Function.backward

    @property
    def states_jvp(self) -> bool:  # type: ignore[override]
        """Whether the class has a jvp."""
        return self.function.jvp is not Function.jvp

    @property
    def traced(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The placeholders on which forward was traced, and those that it returned."""
        return self.call.traced

    def _run(self, xs: Sequence[Any]) -> list[Any]:
        """Results of forward on `xs`; notes which of them and of the arguments were saved."""
        inputs = [placeholder(x.shape, x.dtype) if isinstance(x, Spec) else variable(x) for x in xs]
        args = list(self.static)
        for i, x in zip(self.tensor_positions, inputs, strict=True):
            args[i] = x
        with recording(False):
            result = self.function.forward(self.ctx, *args)
        made = _as_list(result)
        for out in made:
            if not isinstance(out, Variable) and not hasattr(out, "dtype"):
                raise DtypeError(
                    f"{self.name}.forward returned {describe(out)}, not a tensor: return a tensor, "
                    "an array or a tuple of those (of a number x, cr.asarray(x))"
                )
        outs = [asarray(out) for out in made]
        call = self.call
        call.many = isinstance(result, tuple)
        call.links = tuple([_link(t, inputs, made) for t in call.saved])
        call.specs = tuple([Spec(o.shape, o.dtype) for o in outs])
        if any(isinstance(x, Spec) for x in xs):
            call.traced = inputs, outs
        return outs

    def eval(self, *xs: Any) -> Any:
        """The arrays that forward returns."""
        outs = self._run(xs)
        return tuple([o.value for o in outs]) if self.many else outs[0].value

    def spec(self, *xs: Any) -> Any:
        """Forward on placeholders: it must be written in tensor operations."""
        self._run(xs)
        return self.call.specs if self.many else self.call.specs[0]

    def reads(self, i: int) -> tuple[int, ...]:
        """What was saved; all results are read if one was."""
        return tuple(sorted({place for place, _ in self.call.links if place is not None}))

    def _restore(self, y: Any, xs: Sequence[Any]) -> None:
        """Set `saved_tensors` from the kept values, each with its place in the graph."""
        ys = y if self.many else (y,)
        now: list[Any] = []
        for place, what in self.call.links:
            value = what if place is None else ys[what] if place == 0 else xs[what]
            now.append(value if value is None or isinstance(value, Variable) else variable(value))
        self.call.restored = tuple(now)

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """What backward returns, checked."""
        self._restore(y, xs)
        gs: Sequence[Any] = g if self.many else (g,)
        wrapped = any(isinstance(c, Variable) for c in gs)
        full = [_cotangent(c, spec) for c, spec in zip(gs, self.call.specs, strict=True)]
        left: list[str] = []
        recorded = wrapped and is_recording()
        with watching(Watch(on_leave=_noting(left))) if recorded else nullcontext():
            bars = self._check_cotangents(
                _as_list(self.function.backward(self.ctx, *full)), need, xs
            )
        if not wrapped:
            return [b if b is None else b.value for b in bars]
        if recorded and left:  # what it took off the graph may come from its cotangents too
            return [
                b if b is None else _unrecorded(self.name, left[0], b, [*full, *xs]) for b in bars
            ]
        if recorded and (why := _outside(self.ctx)):
            return [b if b is None else _unrecorded(self.name, why, b, xs) for b in bars]
        return bars

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """What jvp returns, checked."""
        self._restore(y, xs)
        wrapped = any(isinstance(t, Variable) for t in ts)
        args: list[Any] = [None] * len(self.static)
        for i, t in zip(self.tensor_positions, ts, strict=True):
            args[i] = t if t is None or isinstance(t, Variable) else variable(t)
        out = [asarray(d) for d in _as_list(self.function.jvp(self.ctx, *args))]
        plain = out if wrapped else [d.value for d in out]
        return tuple(plain) if self.many else plain[0]

    def _check_cotangents(self, bars: Sequence[Any], need: Need, xs: Sequence[Any]) -> list[Any]:
        """The cotangents of the tensor arguments; raises where one is missing or does not fit."""
        total = len(self.static)
        if len(bars) != total:
            raise ShapeError(
                f"{self.name}.backward returned {len(bars)} gradients; forward takes {total} "
                "arguments: return one for each, None where none is needed"
            )
        out: list[Any] = []
        for i, needed, x in zip(self.tensor_positions, need, xs, strict=True):
            bar = bars[i]
            if not needed:
                out.append(None)
                continue
            if bar is None:
                raise GradientError(
                    f"{self.name}.backward returned None for argument {i}, {describe(x)}, which "
                    "needs a gradient: return zeros if it really is zero"
                )
            bar = asarray(bar)
            if bar.shape != x.shape or bar.dtype != x.dtype:
                kind = ShapeError if bar.shape != x.shape else DtypeError
                raise kind(
                    f"{self.name}.backward returned {describe(bar)} for argument {i}, which is "
                    f"{x.dtype} {tuple(x.shape)}: a gradient has its argument's shape and dtype"
                )
            out.append(bar)
        return out


def _as_list(result: Any) -> list[Any]:
    """One result or a tuple of them as a list."""
    return list(cast(Sequence[Any], result)) if isinstance(result, tuple) else [result]


def _link(t: Any, inputs: Sequence[Any], made: Sequence[Any]) -> tuple[int | None, Any]:
    """What a saved tensor is; see `_Call.links`."""
    for i, x in enumerate(inputs):
        if x is t:
            return 1 + i, i
    for k, out in enumerate(made):
        if out is t:
            return 0, k
    return None, t


def _cotangent(g: Any, spec: Spec) -> Any:
    """A cotangent as a tensor, zeros if none arrived."""
    if g is None:
        return variable(np.zeros(spec.shape, spec.dtype))
    return g if isinstance(g, Variable) else variable(g)


def _noting(left: list[str]) -> Callable[[Any, str], None]:
    """Notes in `left` what a backward takes off the graph; `bool()` only chooses a branch."""

    def note(x: Any, how: str) -> None:
        if how != "bool()" and x.node is not None and x.node.needs:
            left.append(f"a value that it takes off the graph by {how}")

    return note


def _outside(ctx: Context) -> str:
    """The name of what backward may read that the graph does not know, '' if there is nothing."""
    links = ctx._call.links  # pyright: ignore[reportPrivateUsage]
    if any(place is None and what is not None for place, what in links):
        return "a saved tensor that is neither an argument nor a result of forward"
    for name, value in vars(ctx).items():
        if isinstance(value, Variable) or hasattr(value, "dtype"):
            return f"ctx.{name}"
    return ""


class Unrecorded(Unchanged):
    """The first input, which depends on the others in a way that was not recorded."""

    passes: ClassVar[bool] = False
    """It stays in a program: taken out, a second derivative would be wrong in place of an error."""
    function: str
    why: str

    @property
    def name(self) -> str:
        """The function's name."""
        return f"{self.function}.backward"

    def reads(self, i: int) -> tuple[int, ...]:
        """Nothing."""
        return ()

    def vjp(self, need: Need, g: Any, y: Any, xs: Sequence[Any]) -> Sequence[Any]:
        """`g` for the first input; an error if another one is asked for."""
        if any(need[1:]):
            raise self._unknown()
        return (g, *[None] * (len(xs) - 1))

    def jvp(self, ts: Sequence[Any], y: Any, xs: Sequence[Any]) -> Any:
        """The tangent of the first input; an error if another one has one."""
        if any(t is not None for t in ts[1:]):
            raise self._unknown()
        return ts[0]

    def _unknown(self) -> GradientError:
        return GradientError(
            f"{self.function} cannot be differentiated twice: its backward reads {self.why}, whose "
            "dependence on the arguments is not recorded. Save only arguments and results of "
            "forward, and recompute the rest in backward with tensor operations"
        )


def _unrecorded(name: str, why: str, bar: Any, depends: Sequence[Any]) -> Any:
    """`bar`, linked to the arguments that it could depend on, so that differentiating it fails."""
    links: list[Any] = []
    for d in depends:
        node = d.node if isinstance(d, Variable) else d if isinstance(d, Node) else None
        if node is not None and node.needs:
            links.append(variable(np.zeros(0), node))
    return apply(Unrecorded(name, why), bar, *links)
