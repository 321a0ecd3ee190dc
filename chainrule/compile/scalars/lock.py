"""What is held while a step computes, and by who looks at numbers that it writes."""

from __future__ import annotations

from threading import RLock

LOCK = RLock()
"""For the leaves and the results of all steps."""
