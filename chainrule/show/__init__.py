"""Graphs as text and as pictures: each node's value, gradient, op and the user's line.

`graph(y)` shows how `y`, a tensor or a scalar, was computed; `graph(f, *args)` runs a function so
that every value and every gradient is known. Gradients are those that `backward` left; for tensors
whose `backward` has not run, they are the derivative of y, found without storing anything.

>>> import chainrule as cr
>>> a, b, d = (cr.Tensor(x, requires_grad=True) for x in (2.0, -3.0, 10.0))
>>> print(text(a * b + d, names=dict(a=a, b=b, d=d)).splitlines()[1].split("  ")[0])
add
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.border import with_border as _with_border
from chainrule.errors import ConfigError, DtypeError, describe
from chainrule.page.readable import Words
from chainrule.page.svg import Svg
from chainrule.show.drawing import Direction, Drawing
from chainrule.show.picture import Card, Edge, Facts, Picture, Source, build
from chainrule.show.scalars import ScalarSource
from chainrule.show.tensors import TensorSource, observed
from chainrule.tensors import Tensor

__all__ = ["Card", "Direction", "Drawing", "Edge", "Facts", "Picture", "graph", "svg", "text"]


def graph(
    y: Any,
    *args: Any,
    names: Mapping[str, Any] | None = None,
    labels: Mapping[Any, str] | None = None,
    steps: Iterable[Any] = (),
    max_nodes: int | None = 200,
    direction: Direction = "right",
    flow: bool = False,
) -> Drawing:
    """A drawing of how `y` was computed, or of `y(*args)` if `y` is a function.

    `y` is a tensor, or a scalar of the kind of micrograd's and microgpt's `Value`. A function is
    run on tensors of its arguments, which are labelled with its parameters' names. `names` maps
    names to tensors or scalars, `labels` the other way round. `steps` are those in the order in
    which some walk visited them, numbered on their cards. At most `max_nodes` nodes are drawn,
    those nearest the result. Values flow in `direction`, `right` or `down`; with `flow`, wide edges
    carry large gradients. Raises DtypeError for what is no graph, ConfigError for a bad setting.
    """
    known = _names(names, labels)
    visits = tuple(steps)
    if callable(y):
        y, inputs = observed(y, args)
        source = _source(y, [x for _, x in (*inputs, *known)], held=False)
        known = [*[(name, x) for name, x in inputs if source.key(x) is not None], *known]
    elif args:
        raise DtypeError(f"show: arguments go with a function, and {describe(y)} is none")
    else:
        source = _source(y, [*[x for _, x in known], *visits], held=True)
    for what, x in [*[(f"{name!r}", x) for name, x in known], *[("a step", x) for x in visits]]:
        if source.key(x) is None and not isinstance(x, Tensor):
            raise DtypeError(f"show: {what} is {describe(x)}, which is no part of such a graph")
    known = [(name, x) for name, x in known if source.key(x) is not None]
    return Drawing(build(source, known, visits, max_nodes), direction, flow)


def text(y: Any, *args: Any, **options: Any) -> Words:
    """The text of `graph(y, *args, **options)`."""
    return Words(graph(y, *args, **options).text())


def svg(y: Any, *args: Any, **options: Any) -> Svg:
    """The SVG of `graph(y, *args, **options)`: a string, which a notebook shows as a picture."""
    return graph(y, *args, **options).svg()


def _names(
    names: Mapping[str, Any] | None, labels: Mapping[Any, str] | None
) -> list[tuple[str, Any]]:
    pairs = [*(names or {}).items(), *[(name, x) for x, name in (labels or {}).items()]]
    for name, _ in pairs:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"names: a name is a string, not {name!r}; is the mapping reversed?")
    return pairs


def _source(y: Any, others: list[Any], *, held: bool) -> Source:
    if isinstance(y, Tensor):
        return TensorSource(y, others, held=held)
    if ScalarSource.accepts(y):
        return ScalarSource(y)
    raise DtypeError(
        f"show: {describe(y)} is no part of a graph: give a tensor, a scalar Value, or a function "
        "and its arguments"
    )


_with_border(globals())
