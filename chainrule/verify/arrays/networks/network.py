"""A network of hand-written layers: each layer becomes a subject, with the values that flowed.

The network runs once, its layers telling what they are given. Which of them lies upstream of which
is found by changing what one gives and looking whose arguments change.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays.layer import Layer
from chainrule.verify.arrays.members import Way, duplicate, is_object, walk
from chainrule.verify.arrays.methods import methods_of
from chainrule.verify.arrays.objects import subject_of_layer
from chainrule.verify.arrays.values import is_float
from chainrule.verify.copies import twins
from chainrule.verify.ledger import Skipped
from chainrule.verify.streams import replay

_MOST = 64
"""How many layers are told apart; the others are looked at with the whole."""


@dataclass(frozen=True, eq=False)
class LayerCall:
    """One call of a layer: the layer as it was before, and its arguments."""

    way: Way
    layer: Any
    args: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """The subjects of a network's layers in the order in which they ran, and the network's own."""

    layers: list[Layer]
    """Inner layers before those that hold them."""
    whole: Layer
    upstream: dict[str, list[str]]
    """For each layer those through which its gradient goes on, and the whole."""
    skipped: list[Skipped]


def layers_in(owner: Any) -> dict[Way, Any]:
    """The layers below an object, by the way to each; each once, the outermost first."""
    found: dict[Way, Any] = {}
    seen: set[int] = {id(owner)}
    for way, x in walk(owner):
        if is_object(x) and id(x) not in seen and methods_of(x) is not None:
            seen.add(id(x))
            found[way] = x
    return found


@contextmanager
def wrap_forwards(
    layers: dict[Way, Any], around: Callable[[Way, Any, Any], Any]
) -> Generator[None]:
    """Within it `around(way, layer, forward)` makes what is called in place of each forward."""
    with ExitStack() as undo:
        for way, layer in layers.items():
            forward, _ = cast("tuple[str, str]", methods_of(layer))
            if forward == "__call__":
                undo.enter_context(_wrap_class(type(layer), {id(layer): way}, around))
                continue
            setattr(layer, forward, around(way, layer, getattr(layer, forward)))
            undo.callback(_unwrap, layer, forward)
        yield


def _unwrap(layer: Any, forward: str) -> None:
    """Let the class's method show again."""
    if forward in vars(layer):
        delattr(layer, forward)


@contextmanager
def _wrap_class(
    cls: Any, ways: dict[int, Way], around: Callable[[Way, Any, Any], Any]
) -> Generator[None]:
    """The same for objects that are called themselves, which Python looks up in their class."""
    call = cls.__call__

    @functools.wraps(call)
    def instead(self: Any, *args: Any, **kwargs: Any) -> Any:
        bound = functools.partial(call, self)
        run = around(ways[id(self)], self, bound) if id(self) in ways else bound
        return run(*args, **kwargs)

    cls.__call__ = instead
    try:
        yield
    finally:
        cls.__call__ = call


def run_wrapped(whole: Layer, around: Callable[[Way, Any, Any], Any]) -> None:
    """One forward of a copy of a network, with `wrap_forwards`."""
    owner = duplicate(whole.owner)
    xs = twins([x.value for x in whole.inputs[: whole.count]])
    with replay(whole.streams), wrap_forwards(layers_in(owner), around):
        getattr(owner, whole.names[0])(*xs)


def _calls_of_layers(whole: Layer, changed: int | None = None) -> list[LayerCall]:
    """The calls of the layers in one run, the result of call number `changed` being disturbed."""
    calls: list[LayerCall] = []

    def around(way: Way, layer: Any, forward: Any) -> Any:
        @functools.wraps(forward)
        def instead(*args: Any, **kwargs: Any) -> Any:
            before = duplicate_unwrapped(layer)
            number = len(calls)
            given = inspect.signature(forward).bind(*args, **kwargs)
            calls.append(LayerCall(way, before, tuple(twins(given.args))))
            result = forward(*args, **kwargs)
            return disturb(result) if number == changed else result

        return instead

    run_wrapped(whole, around)
    return calls


def duplicate_unwrapped(layer: Any) -> Any:
    """A copy of a layer without what `wrap_forwards` put in place of forwards."""
    copy = duplicate(layer)
    for part in (copy, *layers_in(copy).values()):
        for name in ("forward", "loss"):
            if hasattr(cast(Any, type(part)), name):
                _unwrap(part, name)
    return copy


def disturb(y: Any) -> Any:
    """`y` with every float in it changed a little."""
    if is_float(y):
        return y * np.asarray(1.01).astype(y.dtype) + np.asarray(0.01).astype(y.dtype)
    if isinstance(y, tuple):
        return tuple([disturb(part) for part in cast("tuple[Any, ...]", y)])
    return y


def network_of(owner: Any, args: Sequence[Any], **options: Any) -> Network:
    """The subjects of an object that may hold layers, at `args`; `options` as for one layer."""
    whole = subject_of_layer(owner, args, **options)
    if not layers_in(owner):
        return Network([], whole, {}, [])
    calls = _calls_of_layers(whole)[:_MOST]
    parts: dict[int, Layer] = {}
    skipped: list[Skipped] = []
    for number, seen in enumerate(calls):
        name = f"{whole.name}.{seen.way}"
        again = sum([c.way == seen.way for c in calls[:number]])
        name += f" (call {again + 1})" if again else ""
        try:
            parts[number] = subject_of_layer(seen.layer, seen.args, name=name)
        except Exception as error:
            skipped.append(Skipped(name, f"cannot be run by itself: {error}"))
    inner_first = sorted(parts, key=lambda n: -len(calls[n].way.steps))
    upstream = _upstream(whole, calls, parts)
    return Network([parts[n] for n in inner_first], whole, upstream, skipped)


def _upstream(
    whole: Layer, calls: Sequence[LayerCall], parts: dict[int, Layer]
) -> dict[str, list[str]]:
    """For each layer whose results flow into it, the nearest first; and the whole."""
    feeds: dict[int, list[str]] = {number: [] for number in parts}
    for number, part in parts.items():
        moved = _calls_of_layers(whole, changed=number)
        for later in range(number + 1, len(calls)):
            if later in feeds and _has_other_arguments(calls[later], moved[later]):
                feeds[later].insert(0, part.name)
    return {parts[n].name: [*names, whole.name] for n, names in feeds.items()}


def _has_other_arguments(a: LayerCall, b: LayerCall) -> bool:
    """Whether two calls of a layer got different arguments."""
    pairs = zip(a.args, b.args, strict=True)
    return any(is_float(x) and not np.array_equal(x, y, equal_nan=True) for x, y in pairs)
