"""watching: the training observers within a program that knows of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from chainrule.verify.finding import Finding
from chainrule.verify.ledger import Ledger
from chainrule.verify.reporting.report import Report
from chainrule.verify.training import native_bus, native_parts, torch_bus, torch_parts
from chainrule.verify.training.record.bus import Part


@contextmanager
def watching(*things: Any, what: str = "training") -> Generator[Report]:
    """Look at the training that runs within it; the report is filled when it ends.

    Args:
        things: Models and optimizers (PyTorch's or chainrule's) that were made before; what is made
            within it is seen anyhow.
        what: What the report calls it.

    The program's results, random streams and gradients are as without it. A report is also filled
    if the program raises: the exception goes on.

    >>> import chainrule as cr
    >>> from chainrule import optim
    >>> w = cr.tensor([1.0, -2.0], requires_grad=True)
    >>> sgd = optim.SGD([w], lr=0.1)
    >>> with watching(sgd) as report:
    ...     for _ in range(3):
    ...         (w * w).sum().backward()
    ...         sgd.step()
    >>> report.findings[0].title
    'gradients not reset'
    """
    ledger = Ledger()
    report = Report(what, (), ledger)
    parts = _start(things)
    try:
        yield report
    finally:
        found: list[Finding] = []
        for part in reversed(parts):
            with contextlib.suppress(Exception):
                part.stop()
        for part in parts:
            found.extend(part.findings(ledger))
        report.findings = tuple(sorted(found, key=lambda f: _ORDER[f.level]))


_ORDER = {"error": 0, "warning": 1, "note": 2}


def _start(things: tuple[Any, ...]) -> list[Part]:
    """Start the observers of both libraries, as far as they are loaded."""
    buses = {"chainrule": native_bus()}
    parts = native_parts(buses["chainrule"])
    if "torch" in sys.modules:
        buses["torch"] = torch_bus()
        parts += torch_parts(buses["torch"])
    for part in parts:
        part.start()
    for thing in things:
        if hasattr(thing, "param_groups"):
            is_native = type(thing).__module__.startswith("chainrule.")
            bus = buses.get("chainrule" if is_native else "torch")
            if bus is not None:
                bus.taps[0].knows(thing)
    return parts
