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

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chainrule.engine.border import with_border as _with_border
from chainrule.engine.graph import recording
from chainrule.engine.tensors import Tensor
from chainrule.errors import ConfigError, DtypeError, describe
from chainrule.page.graph.drawing import Direction, Drawing
from chainrule.page.graph.picture import Card, Edge, Facts, Picture
from chainrule.page.readable import Words
from chainrule.page.svg import Svg
from chainrule.traces.drawing import picture_of
from chainrule.traces.graphs import GraphTrace, is_scalar, trace_of_scalar, trace_of_tensor
from chainrule.traces.names import argument_names
from chainrule.traces.record import as_input
from chainrule.tree import flatten

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

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> cr.show.graph(a * a, names={"a": a}).text().splitlines()[1].split()[:3]
    ['mul', '4', '1']
    """
    known = _names(names, labels)
    visits = tuple(steps)
    if max_nodes is not None and (isinstance(max_nodes, bool) or max_nodes < 1):
        raise ConfigError(f"max_nodes: at least 1, or None for all, not {max_nodes!r}")
    inputs: Sequence[tuple[str, Any]] = ()
    is_function = callable(y)
    if is_function:
        y, inputs = _run(y, args)
    elif args:
        raise DtypeError(f"show: arguments go with a function, and {describe(y)} is none")
    for what, x in [*[(f"{name!r}", x) for name, x in known], *[("a step", x) for x in visits]]:
        if not isinstance(x, Tensor) and not is_scalar(x):
            raise DtypeError(f"show: {what} is {describe(x)}, which is no part of such a graph")
    found = _graph(y, [*inputs, *known], visits, is_function)
    order: dict[int, int] = {}
    for i, x in enumerate(visits, 1):
        if (number := found.number(x)) is not None:
            order.setdefault(number, i)
    hint = _HINTS[(is_function, is_scalar(y))]
    return Drawing(picture_of(found.trace, max_nodes, steps=order, hint=hint), direction, flow)


_HINTS = {
    (False, False): "–: not kept. Name the inputs, or let show.graph(f, *args) run the function",
    (True, False): "–: not kept. Name the tensors that the function uses",
    (False, True): "–: call backward() first",
    (True, True): "–: call backward() first",
}
"""What to do when values or gradients are unknown, by whether a function ran, and of scalars."""


def _graph(
    y: Any, names: Sequence[tuple[str, Any]], visits: Sequence[Any], is_function: bool
) -> GraphTrace:
    if isinstance(y, Tensor):
        return trace_of_tensor(y, names, others=visits, left=not is_function)
    if is_scalar(y):
        return trace_of_scalar(y, names)
    raise DtypeError(
        f"show: {describe(y)} is no part of a graph: give a tensor, a scalar Value, or a function "
        "and its arguments"
    )


def _run(f: Any, args: Sequence[Any]) -> tuple[Any, Sequence[tuple[str, Any]]]:
    """`f` on tensors that require gradients in place of the floats, arrays and tensors in `args`
    (which may be nested): its result, and what it ran on by name."""
    leaves, structure = flatten(list(args))
    given = structure.unflatten([as_input(x) for x in leaves])
    with recording(True):
        y = f(*given)
    return y, [(name, x) for name, x in argument_names(f, given) if isinstance(x, Tensor)]


def text(y: Any, *args: Any, **options: Any) -> Words:
    """The text of `graph(y, *args, **options)`.

    >>> a = cr.Value(2.0, label="a")
    >>> y = a * a + 1.0
    >>> y.backward()
    >>> print(cr.show.text(y))
                  value  gradient
    +             5      1
    ├─ *          4      1
    │  ├─ a #1    2      4
    │  └─ a → #1
    └─ constant   1
    """
    return Words(graph(y, *args, **options).text())


def svg(y: Any, *args: Any, **options: Any) -> Svg:
    """The SVG of `graph(y, *args, **options)`: a string, which a notebook shows as a picture.

    >>> a = cr.tensor(2.0, requires_grad=True)
    >>> cr.show.svg(a * a)[:4]
    '<svg'
    """
    return graph(y, *args, **options).svg()


def _names(
    names: Mapping[str, Any] | None, labels: Mapping[Any, str] | None
) -> list[tuple[str, Any]]:
    pairs = [*(names or {}).items(), *[(name, x) for x, name in (labels or {}).items()]]
    for name, _ in pairs:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"names: a name is a string, not {name!r}; is the mapping reversed?")
    return pairs


_with_border(globals())
