"""A forward and a backward of NumPy arrays as a subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from chainrule.errors import ConfigError, describe
from chainrule.verify.arrays import convention, methods, roles
from chainrule.verify.arrays.argument_trees import Argument, argument_of, assign, group
from chainrule.verify.arrays.captured_arrays import Capture, captures, rebind, sizes_outside
from chainrule.verify.arrays.convention import Convention, as_list
from chainrule.verify.arrays.numpy_standin import follow
from chainrule.verify.arrays.roles import Side
from chainrule.verify.arrays.values import (
    as_gradient,
    as_output,
    inputs_of,
    kept_lengths,
    times,
    with_answered,
    without_unasked,
)
from chainrule.verify.copies import left_by_forward, names_written, twins
from chainrule.verify.place import Place
from chainrule.verify.streams import Stream, replay, streams_drawn
from chainrule.verify.subject import Array, Input, Source, Subject, values
from chainrule.verify.user_code import argument_names, name_of, place_of, source_of, with_forward


@dataclass(frozen=True, eq=False)
class Pair(Subject):
    """`forward(*xs)` and `backward`, called as `convention` says."""

    name: str
    inputs: tuple[Input, ...]
    arguments: tuple[Argument, ...]
    """What the inputs are put together to."""
    forward_function: Callable[..., Any]
    backward_function: Callable[..., Any]
    convention: Convention
    captured: tuple[Capture, ...] = ()
    """What the backward reaches for besides its parameters: of (*arguments, *results)."""
    streams: tuple[Stream, ...] = ()
    kind: str = "NumPy pair"
    place: Place | None = None
    backward_place: Place | None = None

    @property
    def takes_cotangent(self) -> bool:
        """Whether the backward has a parameter for it."""
        return self.convention.takes_cotangent

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The forward's outputs, without what it keeps for the backward."""
        with replay(self.streams):
            results = as_list(self.forward_function(*group(self.arguments, twins(xs))))
        return self._outputs(results)

    def _outputs(self, results: Sequence[Any]) -> tuple[Array, ...]:
        what = name_of(self.forward_function)
        return tuple([as_output(y, what) for y in results[: self.convention.outputs]])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What the backward returns, after a forward on the same arrays."""
        return self._run(twins(xs), twins(gs))

    def _run(self, xs: list[Any], gs: list[Any]) -> tuple[Array | None, ...]:
        returned = self.returned(xs, gs)
        bars = assign(returned, self.arguments, self.inputs, self.backward_function)
        if not self.takes_cotangent:
            bars = [times(gs[0], b) for b in bars]
        return tuple([as_gradient(b) for b in bars])

    def returned(self, xs: Sequence[Any], gs: Sequence[Any]) -> Any:
        """What the backward gives back, as it does."""
        if self.convention.at_once:
            changed = self.backward_function is not self.forward_function
            value = self.forward(xs)[0] if changed else None
            with replay(self.streams):
                result = self.backward_function(*group(self.arguments, xs))
            return methods.gradients_behind(result, value)
        with replay(self.streams):
            args = group(self.arguments, xs)
            results = as_list(self.forward_function(*args))
            self._outputs(results)
            backward = rebind(self.backward_function, self.captured, [*xs, *results])
            return self.convention.call(backward, args, results, gs)

    def changes(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[str, ...]:
        """Arguments and cotangents that were written into, but for buffers by the forward."""
        after, given, sent = twins(xs), twins(xs), twins(gs)
        with replay(self.streams):
            self.forward_function(*group(self.arguments, after))
        known = left_by_forward(xs, after, self._run(given, sent))
        cotangents = [f"the cotangent of output {i}" for i in range(len(gs))]
        names = [x.name for x in self.inputs]
        return (*names_written(names, known, given), *names_written(cotangents, gs, sent))

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """By the engine, of the forward run on tensors."""
        wanted, expected = [x.wanted for x in self.inputs], self.forward(xs)
        with replay(self.streams):
            found = follow(self._on_tensors, xs, wanted, [self.forward_function], expected)
        return None if found is None else found.pull(gs)

    def _on_tensors(self, *xs: Any) -> Sequence[Any]:
        return as_list(self.forward_function(*group(self.arguments, xs)))[: self.convention.outputs]

    @property
    def own_sizes(self) -> Mapping[int, str]:
        """A size that stands outside of both functions belongs to these very arrays."""
        told = sizes_outside([self.forward_function, self.backward_function])
        return kept_lengths([x.value for x in self.inputs], told)

    @property
    def functions(self) -> list[Callable[..., object]]:
        """Both, whether their text is known or not."""
        return [self.forward_function, self.backward_function]

    @property
    def source(self) -> Source | None:
        """The backward's text, and the forward's."""
        backward = source_of(self.backward_function, lambda f: replace(self, backward_function=f))
        return with_forward(
            backward, self.forward_function, lambda f: replace(self, forward_function=f)
        )


def subject_of_pair(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    args: Sequence[Any],
    *,
    name: str | None = None,
    cotangent: Side | None = None,
    cache: bool | None = None,
    wrt: Sequence[str | int] | None = None,
) -> Pair:
    """The subject of a hand-written pair at `args`; see `verify.pair` for what is understood."""
    made, result = _paired(forward, backward, args, name or name_of(forward), wrt)
    names = [a.name for a in made.arguments]
    found = roles.find(
        forward,
        backward,
        tuple(names),
        as_list(result),
        partial(_why_not, made),
        side=cotangent,
        cache=cache,
        together=convention.outputs_in_tuple(result),
    )
    made = replace(made, convention=found)
    return made if wrt is not None else _with_asked(made)


def subject_of_both(
    f: Callable[..., Any], args: Sequence[Any], *, wrt: Sequence[str | int] | None = None
) -> Pair:
    """The subject of a function that returns a value and its gradients, at `args`.

    Raises `ConfigError` if it returns something else.
    """
    made, result = _paired(f, f, args, name_of(f), wrt)
    results = as_list(result)
    if not methods.gives_both(tuple(results)):
        returned = ", ".join(map(describe, results))
        raise ConfigError(
            f"pair: {name_of(f)} returned {returned}: give its backward as well, "
            "verify.pair(forward, backward, *args), or let it return a number and its gradients"
        )
    made = replace(made, convention=methods.convention_of([a.name for a in made.arguments]))
    return made if wrt is not None else _with_asked(made)


def _paired(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    args: Sequence[Any],
    name: str,
    wrt: Sequence[str | int] | None,
) -> tuple[Pair, Any]:
    """The pair, before it is known how the backward is called, and what the forward returned."""
    names = argument_names(forward, len(args))
    arguments = tuple([argument_of(n, a) for n, a in zip(names, args, strict=True)])
    leaves = [x for a, value in zip(arguments, args, strict=True) for x in a.parts(value)]
    inputs = inputs_of([n for a in arguments for n in a.leaves], leaves, wrt)
    xs = [x.value for x in inputs]
    run: Any = lambda: forward(*group(arguments, twins(xs)))
    result, streams = streams_drawn(run, (forward, backward))
    made = Pair(
        name,
        inputs,
        arguments,
        forward,
        backward,
        convention.Convention((), 1, by_name=False),
        captures(backward, [*xs, *as_list(result)]),
        streams,
        place=place_of(forward),
        backward_place=place_of(backward),
    )
    return made, result


def _with_asked(pair: Pair) -> Pair:
    """The same without inputs of which nobody expects a gradient, and with numbers that get one;
    see `values.unasked` and `answered`."""
    xs = values(pair)
    try:
        ys = pair.forward(xs)
        returned = pair.returned(twins(xs), [np.ones_like(y) for y in ys])
        bars = assign(returned, pair.arguments, pair.inputs, pair.backward_function)
    except Exception:
        return pair  # what it raises is a finding, to be made later
    loss = [y.size for y in ys] == [1]
    inputs = without_unasked(pair.inputs, bars, returned, loss=loss)
    if pair.convention.at_once:  # It gives the gradients of what is to be learnt.
        asked = zip(inputs, bars, strict=True)
        inputs = tuple([replace(x, wanted=x.wanted and bar is not None) for x, bar in asked])
    return replace(pair, inputs=with_answered(inputs, bars))


def _why_not(made: Pair, tried: Convention) -> tuple[int, str]:
    """Why a convention cannot be right: 2, the backward raises; 1, a gradient has another shape."""
    pair = replace(made, convention=tried)
    xs = values(pair)
    try:
        ys = pair.forward(xs)
        rng = np.random.Generator(np.random.PCG64(7))
        gs = [np.asarray(rng.normal(size=y.shape)).astype(y.dtype) for y in ys]
        bars = pair.pull(xs, gs)
    except Exception as error:
        return 2, f"{type(error).__name__}: {error}"
    for x, bar in zip(pair.inputs, bars, strict=True):
        if x.wanted and (bar is None or bar.shape != x.value.shape):
            return 1, f"it gives {describe(bar)} for {x.name}, which is {describe(x.value)}"
    return 0, ""
