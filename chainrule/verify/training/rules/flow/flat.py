"""Layers behind which an activation is flat whenever it was seen: relus whose units are all dead,
sigmoids and tanhs that are stuck at both ends.

If the biases of a dead layer are one and the same negative number, the program has set them so: the
line that does it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from chainrule.verify.finding import Finding
from chainrule.verify.place import Place
from chainrule.verify.training.facts.layers import Row
from chainrule.verify.training.facts.names import listed
from chainrule.verify.training.facts.units import Units
from chainrule.verify.training.rules.finding import finding
from chainrule.verify.training.text import origins
from chainrule.verify.where import placed

_SAMPLES, _EACH = 64, 16
"""Values of each unit that it takes to say so, in all steps that were seen and in each."""

_Table = tuple[tuple[str, ...], ...]


def flat(
    model: str,
    rows: Sequence[Row],
    units: Sequence[Units],
    table: Callable[[Mapping[int, str]], _Table],
) -> list[Finding]:
    """What is dead and what is stuck; `table` shows the layers, given words for some of them."""
    names = {row.order: row for row in rows}
    kinds = ((Units.is_dead, _dying), (Units.is_stuck, _stuck))
    found = [
        (says, [u[-1] for u in _always(units, wrong) if _is_enough(u)]) for wrong, says in kinds
    ]
    return [
        says(model, some, names, table({u.order: "DEAD" for u in some}))
        for says, some in found
        if some
    ]


def is_short(units: Sequence[Units]) -> bool:
    """Whether something was always flat, and a step more would be enough to say so."""
    every = [*_always(units, Units.is_dead), *_always(units, Units.is_stuck)]
    return any(_is_seen(same) and not _is_enough(same) for same in every)


def _always(units: Sequence[Units], wrong: Callable[[Units], bool]) -> Iterator[Sequence[Units]]:
    """Activations of which it is so whenever they were seen, each step by step."""
    for order, op in sorted({(u.order, u.op) for u in units}):
        same = [u for u in units if (u.order, u.op) == (order, op)]
        if all(map(wrong, same)):
            yield same


def _is_seen(same: Sequence[Units]) -> bool:
    several = all(u.samples >= _EACH and u.count >= 4 for u in same)
    return several and len({u.step for u in same}) >= 2


def _is_enough(same: Sequence[Units]) -> bool:
    return _is_seen(same) and sum([u.samples for u in same]) >= _SAMPLES


def _dying(model: str, dead: Sequence[Units], rows: Mapping[int, Row], table: _Table) -> Finding:
    u = dead[0]
    name = rows[u.order].name
    because = (
        f"{u.dead:.0%} of the {u.count} units of the relu behind {name} are 0 for each of "
        f"{u.samples} values, in every step that was seen: no gradient goes through them"
    )
    advice = "a smaller learning rate or bias, another initialisation, or leaky_relu / gelu"
    sunk = rows[u.order].bias
    if sunk is None or sunk >= 0:
        return _flat(model, because, advice, dead, rows, table)
    because += f"; the biases of {name} are {sunk:.4g}"
    return _flat(
        model, because, advice, dead, rows, table, origins.biases(name, placed(rows[u.order].at))
    )


def _stuck(model: str, stuck: Sequence[Units], rows: Mapping[int, Row], table: _Table) -> Finding:
    u = stuck[0]
    most = 0.25 if u.op == "sigmoid" else 1
    because = (
        f"{u.saturated:.0%} of the values of the {u.op} behind {rows[u.order].name} are saturated, "
        f"in every step that was seen: their mean derivative is {u.slope:.2g}, at most {most}"
    )
    advice = "bring the inputs to mean 0 and deviation 1, or take smaller initial weights"
    return _flat(model, because, advice, stuck, rows, table)


def _flat(
    model: str,
    because: str,
    advice: str,
    some: Sequence[Units],
    rows: Mapping[int, Row],
    table: _Table,
    origin: Place | None = None,
) -> Finding:
    return finding(
        "warning",
        "dead",
        because,
        advice,
        origin or placed(rows[some[0].order].at),
        subject=model,
        kind="model",
        input=listed([rows[u.order].name for u in some]),
        table=table,
    )
