"""An object with a forward and a backward as a subject: its arguments and its parameters.

Such objects remember between the two. Each run is one of a fresh copy, so that nothing that was
measured depends on what was measured before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays import calls, methods, parameters
from chainrule.verify.arrays.calls import are_sums, reset_of
from chainrule.verify.arrays.captured_arrays import sizes_outside
from chainrule.verify.arrays.convention import RATE, Convention
from chainrule.verify.arrays.members import duplicate, is_object, walk
from chainrule.verify.arrays.methods import functions_of, results_of, split
from chainrule.verify.arrays.numpy_standin import follow
from chainrule.verify.arrays.parameters import Parameter
from chainrule.verify.arrays.returned_gradients import Returned, by_shape
from chainrule.verify.arrays.values import as_gradient, as_output, kept_lengths, times
from chainrule.verify.copies import left_by_forward, names_written, twins
from chainrule.verify.place import Place
from chainrule.verify.streams import Stream, replay
from chainrule.verify.subject import Array, Input, Source, Subject
from chainrule.verify.user_code import source_of, with_forward


@dataclass(frozen=True, eq=False)
class Layer(Subject):
    """`owner`, run by the methods `names`; the first `count` inputs are arguments."""

    name: str
    inputs: tuple[Input, ...]
    owner: Any
    names: tuple[str, str]
    count: int
    parameters: Mapping[str, Parameter]
    convention: Convention
    backward_function: Callable[..., Any] | None = None
    """Takes the place of the class's backward."""
    forward_function: Callable[..., Any] | None = None
    """Takes the place of the class's forward."""
    streams: tuple[Stream, ...] = ()
    kind: str = "NumPy layer"
    place: Place | None = None
    backward_place: Place | None = None

    def copied(self, xs: Sequence[Any], *, pulls: bool = False) -> Any:
        """The object as it was, with the values of its parameters from xs. `pulls`: whether its
        backward is to run, if that is the same method."""
        replaced = [way.find(self.owner) for p in self.parameters.values() for way in p.ways]
        layer = duplicate(self.owner, [a for a in replaced if isinstance(a, np.ndarray)])
        for p, x in zip(self.parameters.values(), xs[self.count :], strict=True):
            parameters.clear(layer, p, x)
            p.put(layer, x)
        bound = {self.names[0]: self.forward_function}
        if pulls or not self.convention.at_once:
            bound[self.names[1]] = self.backward_function
        for name, method in bound.items():
            if method is not None:
                setattr(layer, name, MethodType(method, layer))
        return layer

    def called(self, layer: Any, xs: Sequence[Any]) -> Any:
        """What the forward of a copy gives back, as it does."""
        return getattr(layer, self.names[0])(*xs[: self.count])

    def _forward(self, layer: Any, xs: Sequence[Any]) -> list[Any]:
        return results_of(layer, self.called(layer, xs))

    @property
    def takes_cotangent(self) -> bool:
        """Whether the backward has a parameter for it."""
        return self.convention.takes_cotangent

    def forward(self, xs: Sequence[Any]) -> tuple[Array, ...]:
        """The forward's outputs."""
        given = twins(xs)
        with replay(self.streams):
            results = self._forward(self.copied(given), given)
        return self._outputs(results)

    def _outputs(self, results: Sequence[Any]) -> tuple[Array, ...]:
        what = f"{self.name}.{self.names[0]}"
        return tuple([as_output(y, what) for y in results[: self.convention.outputs]])

    def pull(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...]:
        """What the backward returns for the arguments and leaves for the parameters."""
        return self._run(twins(xs), twins(gs))

    def _run(self, xs: list[Any], gs: list[Any]) -> tuple[Array | None, ...]:
        return self.bars(self.copied(xs, pulls=True), xs, gs)[1]

    def repeated(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """What a second backward of the same object leaves, after its `zero_grad` if it has one; a
        gradient that is added up there is none of one call. If all of the parameters' are, and
        nothing sets them back, that is how the object is meant."""
        if self.convention.updates:
            return None  # The second call is one at other parameters.
        layer = self.copied(twins(xs), pulls=True)
        ys, first = self.bars(layer, twins(xs), twins(gs))
        first = tuple(twins(first))  # The second call may write into them.
        reset = reset_of(layer)
        if reset is not None:
            reset()
        others, second = self.bars(layer, twins(xs), twins(gs))
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ys, others, strict=True))
        summed = reset is None and are_sums(first[self.count :], second[self.count :])
        if not same or summed:
            return None
        return second

    def resumed(
        self, xs: Sequence[Any], others: Sequence[Any], gs: Sequence[Array]
    ) -> tuple[Array | None, ...] | None:
        """What the backward of an object leaves that has run a call with other arguments before.
        Gradients of parameters may be put together of those of both calls."""
        return None if self.convention.updates else calls.resumed(self, xs, others, gs)

    def bars(
        self, layer: Any, xs: list[Any], gs: list[Any]
    ) -> tuple[tuple[Array, ...], tuple[Array | None, ...]]:
        """Outputs and gradients of one call of an object."""
        before = twins(xs[self.count :])
        ys, returned = self.returned(layer, xs, gs)
        of_arguments, rest = self.parted(layer, returned)
        bars = [*of_arguments, *self._of_parameters(layer, rest, before)]
        if not self.takes_cotangent:
            bars = [times(gs[0], b) for b in bars]
        return ys, tuple([as_gradient(b) for b in bars])

    def returned(
        self, layer: Any, xs: Sequence[Any], gs: Sequence[Any]
    ) -> tuple[tuple[Array, ...], Any]:
        """Outputs, and what the backward of a copy gives back, as it does."""
        changed = self.convention.at_once and self.backward_function is not None
        value = self.forward(xs)[0] if changed else None
        with replay(self.streams):
            results = self._forward(layer, xs)
            ys = self._outputs(results)
            if self.convention.at_once:
                return ys, methods.gradients_behind(tuple(results), value)
            backward = getattr(layer, self.names[1])
            return ys, self.convention.call(backward, xs[: self.count], results, gs)

    def parted(self, layer: Any, returned: Any) -> tuple[list[Any], list[Returned]]:
        """Gradients of arguments, and the others: where one method gives all, or
        a backward gives no others, those in order are the parameters'."""
        arguments = [x.name for x in self.inputs[: self.count]]
        backward = getattr(layer, self.names[1])
        if self.convention.of_parameters and not isinstance(returned, dict):
            _, rest = split(returned, [], layer, backward)
            return [None] * len(arguments), rest
        return split(returned, arguments, layer, backward)

    def _of_parameters(
        self, layer: Any, rest: Sequence[Returned], before: Sequence[Any]
    ) -> list[Any]:
        """What was returned by name; else what was left in the layer, or changed; else what was
        returned without a name of any."""
        named = parameters.gradients_by_name(self.parameters.values(), rest)
        out: list[Any] = []
        for p, old, found in zip(self.parameters.values(), before, named, strict=True):
            left = p.gradient(layer) if found is None else found.value
            if left is None and self.convention.updates:
                left = (old - p.way.get(layer)) / np.asarray(RATE, old.dtype)
            out.append(left)
        unnamed = [r for r in rest if r not in named]
        missing = [i for i, left in enumerate(out) if left is None]
        others = by_shape(unnamed, [np.shape(before[i]) for i in missing])
        for i, other in zip(missing, others, strict=True):
            out[i] = None if other is None else other.value
        return out

    def changes(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[str, ...]:
        """Arguments, parameters and cotangents that were written into, but for buffers by the
        forward."""
        after, given, sent = twins(xs), twins(xs), twins(gs)
        with replay(self.streams):
            self._forward(self.copied(after), after)
        known = left_by_forward(xs, after, self._run(given, sent))
        if self.convention.updates:  # parameters are its own to change
            given[self.count :] = known[self.count :]
        cotangents = [f"the cotangent of output {i}" for i in range(len(gs))]
        names = [x.name for x in self.inputs]
        return (*names_written(names, known, given), *names_written(cotangents, gs, sent))

    def derived(self, xs: Sequence[Any], gs: Sequence[Array]) -> tuple[Array | None, ...] | None:
        """By the engine, of the forward run on tensors in place of arguments and parameters."""

        def run(*leaves: Any) -> list[Any]:
            return self._forward(self.copied(leaves), leaves)[: self.convention.outputs]

        holders = [self.owner, *[x for _, x in walk(self.owner) if is_object(x)]]
        code = [v for x in holders for v in functions_of(x)]
        expected = self.forward(xs)
        with replay(self.streams):
            found = follow(run, xs, [x.wanted for x in self.inputs], code, expected)
        return None if found is None else found.pull(gs)

    @property
    def source(self) -> Source | None:
        """The text of the backward's method, and of the forward's."""
        forward, method = self._methods
        backward = source_of(method, lambda f: replace(self, backward_function=f))
        return with_forward(backward, forward, lambda f: replace(self, forward_function=f))

    @property
    def settings(self) -> Mapping[str, float]:
        """Numbers with a point that the object keeps."""
        return {str(way): x for way, x in walk(self.owner) if type(x) is float}

    def at_setting(self, name: str, value: float) -> Subject:
        """The same with another number in the object."""
        owner = duplicate(self.owner)
        next(way for way, _ in walk(owner) if str(way) == name).put(owner, value)
        return replace(self, owner=owner)

    @property
    def own_sizes(self) -> Mapping[int, str]:
        """Whole numbers that the object keeps, or that stand outside of its methods, and that are
        lengths: it works for these only."""
        told = [
            (x, f"the object keeps a size of its own: {way} = {x}")
            for way, x in walk(self.owner)
            if isinstance(x, int) and not isinstance(x, bool)
        ]
        told += sizes_outside(self._methods)
        return kept_lengths([x.value for x in self.inputs], told)

    @property
    def _methods(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Forward and backward, as functions of the object."""
        cls = cast(Any, type(self.owner))
        return (
            self.forward_function or getattr(cls, self.names[0]),
            self.backward_function or getattr(cls, self.names[1]),
        )
