"""What writer and reader agree on."""

from __future__ import annotations

from chainrule.traces.trace import Factor, Gather, Local, Matrix, Opaque, Product, Scatter

FORMAT = "chainrule trace"
VERSION = 1
MOST = 1 << 28
"""Bytes of a file that is read."""
NAMED = ("slip", "before", "after", "why")
MEASURED = ("difference", "bound")
ELEMENTS = ("elements", "bounds")
UNSAID = ("label", "line", "module", "formula")
"""Parts of a node that are left out where they are empty."""
FORMS: dict[str, type[Local]] = {
    c.__name__.lower(): c for c in (Factor, Product, Gather, Scatter, Matrix, Opaque)
}
DTYPES = {"<f8", "<f4", "<i4", "<i8", "|u1"}
