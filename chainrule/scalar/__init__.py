"""Scalars: the chain rule on single numbers (`value`), its functions written from the op table
(`rules`), its two walks (`walk`).
"""

from chainrule.ops import special as special  # its rows belong to the table too
from chainrule.scalar.value import Value

__all__ = ["Value"]
