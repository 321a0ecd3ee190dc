"""Writes docs/jax_names.md: JAX's own lists of functions, and what stands here for each.

Run it with JAX installed: `python scripts/jax_names.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import jax
import jax.nn
import jax.numpy
import jax.tree_util

import chainrule
import chainrule.random
import chainrule.tree
from chainrule import nn
from chainrule.names import public_names

PAGE = Path(__file__).parents[1] / "docs" / "jax_names.md"
HEAD = """# JAX's names

The names of `jax`, `jax.lax`, `jax.nn`, `jax.random`, `jax.tree`, `jax.tree_util` and of JAX's
arrays, as JAX lists them, and what to write here. A name that is not offered is an error that says
the same, also under `chainrule.random` and `chainrule.tree`. Primitives (`sin_p`) have no row:
write the function. [from_jax.md](from_jax.md) says what differs. `scripts/jax_names.py`, which
needs JAX 0.10.2, writes this page.
"""


def sections() -> Iterator[tuple[str, list[str], Any, str]]:
    """For each: title, JAX's names, home of ours, how ours is called."""
    yield "jax", names(jax), chainrule, "cr"
    yield "jax.lax", names(jax.lax), chainrule, "cr"
    yield "jax.nn", names(jax.nn), nn, "nn"
    yield "jax.random", names(jax.random), chainrule.random, "cr.random"
    yield "jax.tree", names(jax.tree), chainrule.tree, "cr.tree"
    yield "jax.tree_util", names(jax.tree_util), chainrule, "cr"
    yield "arrays", names(type(cast(Any, jax.numpy).ones(3))), chainrule.Tensor, "x"


def names(home: Any) -> list[str]:
    """The public names of JAX's module or array that are its own."""
    found = [n for n in dir(home) if not n.startswith("_") and not n.endswith("_p")]
    return [n for n in found if not _is_foreign(getattr(home, n, None)) and n not in INTERNAL]


INTERNAL = {"format", "errors", "version", "dtype"}
"""What JAX shows besides, which nobody writes in a program of JAX's."""


def _is_foreign(x: Any) -> bool:
    return isinstance(x, ModuleType) and not x.__name__.startswith("jax")


def is_offered(ours: Any, name: str) -> bool:
    """Whether ours has the name, and not only what to write in its place."""
    if ours is chainrule:
        by_name = public_names.imports_of("chainrule")
        return name in by_name or public_names.is_module("chainrule", name)
    return name in dir(ours)


def hint(ours: Any, name: str) -> str:
    """What the error says."""
    try:
        getattr(ours, name)
    except AttributeError as error:
        return str(error).partition("': ")[2]
    return ""


def text() -> str:
    """The page."""
    parts = [HEAD]
    for title, found, ours, called in sections():
        offered = [n for n in found if is_offered(ours, n)]
        rows: list[str] = []
        by_hint: dict[str, list[str]] = {}
        for name in found:
            what = f"`{called}.{name}`" if name in offered else hint(ours, name)
            by_hint.setdefault(what, []).append(f"`{name}`")
        rows = [f"| {', '.join(members)} | {what} |" for what, members in by_hint.items()]
        parts.append(
            f"## {title}: {len(offered)} of {len(found)}\n\n| JAX | here |\n|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
