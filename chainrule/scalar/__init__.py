"""Scalars: the chain rule on single numbers (`value`), its functions written from the op table
(`rules`), its two walks (`walk`). It needs nothing but Python's standard library.
"""

from chainrule.scalar.value import Value

__all__ = ["Value"]
