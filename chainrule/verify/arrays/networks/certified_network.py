"""A network of hand-written layers, certified from the inside out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.verify.arrays.networks.network import Network, network_of
from chainrule.verify.certifying.stages import certified_after, merged
from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger, Skipped
from chainrule.verify.reporting.report import Report

if TYPE_CHECKING:
    from chainrule.verify.arrays.layer import Layer


def certified_network(owner: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Report:
    """The report on an object with forward and backward, and on those in it.

    Inner layers come first. What holds a layer that is wrong is its victim: it is not looked at
    until that one is right, because nobody could tell whose mistake it is.
    """
    network = network_of(owner, args, **options)
    ledger = Ledger(skipped=list(network.skipped))
    findings: list[Finding] = []
    for level in _levels(network):
        wrong = {f.subject for f in findings if f.level == "error"}
        for layer in level:
            if inner := [w for w in wrong if w.startswith(f"{layer.name}.")]:
                why = f"holds {', '.join(sorted(inner))}, which is wrong: correct that first"
                ledger.skipped.append(Skipped(layer.name, why))
        ready = [x for x in level if not any(w.startswith(f"{x.name}.") for w in wrong)]
        if ready:
            name = network.whole.name
            new = certified_after(name, ready, ledger, upstream=network.upstream)
            findings += new
    return Report(network.whole.name, merged(findings), ledger)


def _levels(network: Network) -> list[list[Layer]]:
    """Layers that hold no other one, then those that hold these only, ..., at last the whole."""
    left = list(network.layers)
    levels: list[list[Layer]] = []
    while left:
        outer = {x.name for x in left if any(_holds(x, y) for y in left)}
        levels.append([x for x in left if x.name not in outer])
        left = [x for x in left if x.name in outer]
    return [*levels, [network.whole]]


def _holds(x: Layer, y: Layer) -> bool:
    return y.name.startswith(f"{x.name}.")
