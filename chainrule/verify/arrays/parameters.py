"""The parameters of a hand-written layer, and where its backward leaves their gradients.

Nobody declares them. A parameter is an array that the object holds before it runs, for which its
backward leaves a gradient: beside it (`dW`, `grad_W`, `W_grad`), under the same key of a container
of gradients (`grads["W"]`), in the `grad` of what holds it, or among what backward returns. An
array that is called like a parameter, or stands among those that are, is one too: its gradient was
dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from chainrule.verify.arrays.members import Way, walk
from chainrule.verify.arrays.naming_conventions import gradient_of, is_spelled
from chainrule.verify.arrays.returned_gradients import Returned, match_gradients, names_on
from chainrule.verify.arrays.values import is_float
from chainrule.verify.copies import twin

_CONTAINER = re.compile(r"^_*(params?|parameters|weights|trainables?|learnables?|theta)$")
_GRADIENTS = re.compile(
    r"^_*(d_?(params?|parameters|weights|theta)|grads?|gradients?|gs|derivatives"
    r"|(params?|parameters|weights)_?(grads?|gradients)|grads?_?(of_)?(params?|parameters|weights))$"
)
_LIKELY = re.compile(
    r"^_*([WUV]|[wbuv]|[WUVwbuv]_?\w{1,3}|weights?|bias(es)?|kernels?|gamma|beta|gain|shift|theta"
    r"|(weight|bias)_\w+|embeddings?|table|filters?)$"
)
_HOLDS = ("data", "value", "val", "tensor", "array", "weight", "w", "param")
_LEFT = ("grad", "gradient", "g", "diff", "dw", "d")


@dataclass(frozen=True)
class Parameter:
    """An array that the layer learns. `grad` is where its gradient is left, or would be, where
    those of others are; None if nothing says where."""

    way: Way
    grad: Way | None
    also: tuple[Way, ...] = ()
    """Other ways to the very same array (tied weights, a network's list of all parameters)."""
    grad_also: tuple[Way, ...] = ()
    """Other ways to the very same gradient."""

    @property
    def name(self) -> str:
        """As the user would write it, without the container that holds all."""
        steps = self.way.steps
        if len(steps) == 2 and _CONTAINER.match(str(steps[0][1])):
            return str(steps[1][1]) if isinstance(steps[1][1], str) else str(self.way)
        return str(self.way)

    @property
    def names(self) -> list[str]:
        """What its gradient may be called after: without the indices of lists that lead to it."""
        return list(dict.fromkeys([*names_on(self.way)[-1:], self.name]))

    @property
    def ways(self) -> tuple[Way, ...]:
        """Every way to the array, and to where its gradient is left."""
        grads = () if self.grad is None else (self.grad, *self.grad_also)
        return (self.way, *self.also, *grads)

    def put(self, layer: Any, value: Any) -> None:
        """Give the layer (a copy of it) this value."""
        for way in (self.way, *self.also):
            way.put(layer, value)

    def gradient(self, layer: Any) -> Any:
        """What backward left, None if it left nothing."""
        return None if self.grad is None else self.grad.find(layer)


def clear(layer: Any, p: Parameter, value: Any) -> None:
    """Set the gradient that a layer (a copy) keeps for `p` to zero, where it keeps one.

    It has the shape and the dtype of the new `value`, if it had those of the old one.
    """
    old = p.gradient(layer)
    if not is_float(old) or p.grad is None:
        return
    fits = np.shape(old) == np.shape(p.way.get(layer))
    zeros = np.zeros(value.shape if fits else np.shape(old), value.dtype)
    for way in (p.grad, *p.grad_also):
        way.put(layer, zeros)


def find(
    before: Any, after: Any, returned: Sequence[Returned], *, updated: bool = False
) -> dict[str, Parameter]:
    """The parameters of a layer by name, in the order in which it holds them.

    `before` is the layer as it was, `after` what it is after a backward, `returned` what that
    returned by name. If that `updated` parameters, those that changed are such.
    """
    arrays = {way: x for way, x in walk(before) if is_float(x) and np.ndim(x) >= 0}
    left = {way: x for way, x in walk(after) if is_float(x)}
    grads = {way: _gradient_for(way, left, arrays) for way in arrays}
    taken = {g for g in grads.values() if g is not None}
    found: dict[str, Parameter] = {}
    seen: dict[int, str] = {}
    held = [
        Parameter(way, grads[way], grad_also=_other_ways(grads[way], arrays))
        for way in arrays
        if way not in taken and not _is_gradient(way, arrays)
    ]
    named = gradients_by_name(held, returned)
    spare = [r for r in returned if r not in named]
    of_shapes = _of_shapes([arrays[p.way] for p in held], spare)
    for p, name, fits in zip(held, named, of_shapes, strict=True):
        x, way = arrays[p.way], p.way
        learnt = (
            p.grad is not None or name is not None or (updated and _has_changed(way, arrays, left))
        )
        if not (learnt or fits or _is_likely(p, grads, bool(spare))):
            continue
        if id(x) in seen:  # tied: one parameter that is reached twice
            first = found[seen[id(x)]]
            found[first.name] = _merge_tied(first, p)
            continue
        seen[id(x)] = p.name
        found[p.name] = p
    return {k: replace(p, grad=_place_to_look(p, grads, left)) for k, p in found.items()}


def _place_to_look(
    p: Parameter, grads: Mapping[Way, Way | None], left: Mapping[Way, Any]
) -> Way | None:
    """Where somebody looks for the gradient of `p`: where it is left, if it is; but of a list of
    parameters with gradients in a list of their own, there: what is left in a layer is not it."""
    for way in (p.way, *p.also):
        listed = any(_CONTAINER.match(str(key)) for _, key in way.steps[:-1])
        if listed and grads[way] is None and (there := _place_like_others(way, grads)) is not None:
            beside = {w for w in left if w.parent == there.parent}
            if _GRADIENTS.match(str(there.parent.last)) and beside <= set(grads.values()):
                return there
    return p.grad or _place_like_others(p.way, grads)


def _place_like_others(way: Way, grads: Mapping[Way, Way | None]) -> Way | None:
    """Where the gradient of the array at `way` would be left: as that of the one beside it is."""
    name = way.last
    for other, grad in grads.items():
        if grad is None or other.parent != way.parent or not isinstance(name, str):
            continue
        (by_name, key), of = grad.steps[-1], str(other.last)
        if isinstance(key, str) and key.endswith(of):
            return Way((*grad.steps[:-1], (by_name, key.removesuffix(of) + name)))
        if isinstance(key, str) and key.startswith(of):
            return Way((*grad.steps[:-1], (by_name, name + key.removeprefix(of))))
    return None


def _other_ways(grad: Way | None, arrays: Mapping[Way, Any]) -> tuple[Way, ...]:
    """The other ways to the array at `grad`."""
    if grad is None or grad not in arrays:
        return ()
    return tuple([way for way, x in arrays.items() if x is arrays[grad] and way != grad])


def _merge_tied(first: Parameter, again: Parameter) -> Parameter:
    """One parameter that is reached twice."""
    with_grad = first if first.grad is not None else again
    also = (*first.also, again.way)
    return replace(first, grad=with_grad.grad, also=also, grad_also=with_grad.grad_also)


def _has_changed(way: Way, before: Mapping[Way, Any], after: Mapping[Way, Any]) -> bool:
    return way in after and not np.array_equal(before[way], after[way], equal_nan=True)


def gradients_by_name(
    ps: Iterable[Parameter], returned: Sequence[Returned]
) -> list[Returned | None]:
    """What a backward returned that is called after each parameter, None where nothing is."""
    known = list(ps)
    return match_gradients(returned, [p.way for p in known], [p.names for p in known])


def _gradient_for(way: Way, left: Mapping[Way, Any], before: Mapping[Way, Any]) -> Way | None:
    """Where the gradient of the array at `way` was left: where something changed, if anywhere."""
    candidates = (
        *_same_key(way, left),
        *_gradient_beside(way, left),
        *_gradient_of_holder(way, left),
    )
    found = [c for c in candidates if c != way and c in left]
    found.sort(key=lambda c: not is_spelled(c.last, way.last))
    for c in found:
        if c not in before or not np.array_equal(left[c], before[c], equal_nan=True):
            return c
    return found[0] if found else None


def _same_key(way: Way, left: Mapping[Way, Any]) -> Iterator[Way]:
    """`grads["W"]` for `params["W"]`, for `.W`, and for entry i of a list of parameters."""
    steps = way.steps
    for there in left:
        other = there.steps
        if len(other) < 2 or other[:-2] != steps[: len(other) - 2]:
            continue
        if not _GRADIENTS.match(str(other[-2][1])):
            continue
        of_item = len(other) == len(steps) and (
            other[-1] == steps[-1] or _matches(other[-1][1], steps[-1][1])
        )
        of_attribute = len(other) == len(steps) + 1 and (
            other[-1][1] == steps[-1][1] or _matches(other[-1][1], steps[-1][1])
        )
        if of_item or of_attribute:
            yield there


def _matches(gradient: Any, name: Any) -> bool:
    both = isinstance(gradient, str) and isinstance(name, str)
    return both and gradient_of(cast(str, gradient), [cast(str, name)]) is not None


def _gradient_beside(way: Way, left: Mapping[Way, Any]) -> Iterator[Way]:
    """`.dW` for `.W`: the one whose name says so."""
    for there in left:
        if there.steps[:-1] == way.steps[:-1] and there != way and _matches(there.last, way.last):
            yield there


def _gradient_of_holder(way: Way, left: Mapping[Way, Any]) -> Iterator[Way]:
    """`.grad` of an object whose `.data` is the array."""
    if way.last in _HOLDS:
        for name in _LEFT:
            yield way.parent.attribute(name)


def _is_gradient(way: Way, arrays: Mapping[Way, Any]) -> bool:
    """Whether an array is itself a gradient that somebody initialised."""
    if any(_GRADIENTS.match(str(key)) for _, key in way.steps[:-1]):
        return True
    names = [str(w.last) for w in arrays if w.parent == way.parent and w != way]
    owner = gradient_of(str(way.last), names)
    return owner is not None and len(str(way.last)) > len(owner)


def _of_shapes(held: Sequence[Any], spare: Sequence[Returned]) -> list[bool]:
    """Whether each array must be a parameter: of its shape there are as many gradients that no name
    assigns as arrays."""
    shapes = [np.shape(x) for x in {id(x): x for x in held}.values()]
    returned = [np.shape(r.value) for r in spare]
    return [shapes.count(np.shape(x)) == returned.count(np.shape(x)) for x in held]


def _is_likely(p: Parameter, grads: Mapping[Way, Way | None], spare: bool) -> bool:
    """Whether an array without a gradient is a parameter all the same: it is called like one, and
    there are other gradients, beside it or (`spare`) returned under no name of an array."""
    if any(_CONTAINER.match(str(key)) for _, key in p.way.steps[:-1]):
        return True
    others = [w for w, g in grads.items() if g is not None and w.parent == p.way.parent]
    called = names_on(p.way)[-1:]
    return bool(others or spare) and any(_LIKELY.match(name) for name in called)


def value_of(p: Parameter, layer: Any) -> Any:
    """A copy of the parameter's array."""
    return twin(np.asarray(p.way.get(layer)))
