"""llvmlite has no type annotations: whatever it has may be anything, but for what is a base."""

from typing import Any

class Module:
    triple: str

    def __init__(self, name: str = "") -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def __getattr__(name: str) -> Any: ...
