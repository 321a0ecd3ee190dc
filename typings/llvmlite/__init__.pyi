"""llvmlite has no type annotations: whatever it has may be anything."""

from typing import Any

def __getattr__(name: str) -> Any: ...
