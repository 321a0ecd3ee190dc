"""Examples of names that tables state: written one after the other, found by the name they call.

Examples in docstrings are run by tests with `cr`, `nn`, `optim` and `np` imported.
"""

from __future__ import annotations

import re

_CALL = re.compile(r"^>>> (?:\w+ = )?(?:\w+\.)+(\w+)\(")


def by_name(text: str) -> dict[str, str]:
    """By the name that it calls, each example of a text: one statement and what it shows."""
    entries = text.strip().split("\n>>> ")
    examples = [entries[0], *(f">>> {entry}" for entry in entries[1:])]
    calls = [_CALL.match(example) for example in examples]
    return {call[1]: example for call, example in zip(calls, examples, strict=True) if call}
