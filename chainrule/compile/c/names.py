"""Names in C: identifiers that nothing else has, and what the user calls a thing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final, cast, final

from chainrule.compile.c import functions as fn
from chainrule.errors import ConfigError

_KEYWORDS: Final = (  # noqa: SIM905 (shorter to read)
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while bool true false main printf forward backward update file "
    "step steps data read read_bytes read_state read_batch header argc argv path j0 j1 y0 y1 yn "
    "gamma signgam errno stdin stdout stderr time clock remainder div abs round exit fread fopen "
    "refuse fputs write_state fwrite fclose batches_start"
).split()
COUNTERS: Final = "ijklmnpqrs"
"""What loops call their counters, by depth."""
RESERVED: Final = frozenset(
    [*_KEYWORDS, *[f + end for f in fn.LIBRARY.values() for end in ("", "f", "l")], *fn.TESTS,
     *fn.helper_names()]
)  # fmt: skip


def identifier(text: str) -> str:
    """`text` with everything that C does not take in a name as a single `_`."""
    word = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    return f"x{word}" if not word or word[0].isdigit() else word


def check_symbols(symbols: Iterable[str]) -> None:
    """Raise `ConfigError` for the name of a dynamic axis that C cannot have."""
    for s in symbols:
        if s != identifier(s) or s in RESERVED or s in COUNTERS:
            raise ConfigError(
                f"to_c: a dynamic axis is called {s!r}, which is no name for a number in C: take a "
                'word or a letter, such as "T"'
            )


@final
class Namer:
    """Gives names, each once: `h`, then `h2`, `h3`; a word that C knows begins with `exp2`."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *RESERVED}

    def __call__(self, text: str) -> str:
        """A new name like `text`."""
        base = identifier(text)
        name, n = base, 1
        while name in self._taken:
            n += 1
            name = f"{base}_{n}" if base[-1].isdigit() else f"{base}{n}"
        self._taken.add(name)
        return name


def short(name: str) -> str:
    """What a function that is used for many layers calls its argument: the last two words of the
    path, without numbers.

    >>> short("model.blocks.0.attn.qkv.weight"), short("fc.bias.grad"), short("matmul")
    ('qkv.weight', 'fc.bias.grad', 'matmul')
    """
    words = [w for w in re.split(r"\W+", name) if w and not w.isdigit()]
    count = 3 if words[-1:] == ["grad"] else 2
    return ".".join(words[-count:]) if words else name


# --- what the user calls it ----------------------------------------------------------------------

_LIMIT = 100_000
"""How many objects are looked at."""


def called(f: Any, wanted: Iterable[Any]) -> dict[int, str]:
    """By id of each object of `wanted` that is found, what to call it: how `f` reaches it from its
    closure, its globals or its owner, or its name in the module that has it as a parameter.

    The shortest way wins, and one without private names over any other.
    """
    left = {id(x) for x in wanted}
    found: dict[int, str] = {}
    seen: set[int] = set()
    queue = [((name,), x) for name, x in _reached(f)]
    private: list[tuple[tuple[str, ...], Any]] = []
    while (queue or private) and left and len(seen) < _LIMIT:
        if not queue:
            queue, private = private, []
        level, queue = queue, []
        for path, x in level:
            for name, part in [(_spoken(path), x), *_named(x)]:
                if id(part) in left:
                    found[id(part)] = name
                    left.discard(id(part))
            if id(x) not in seen:
                seen.add(id(x))
                for name, part in _parts(x):
                    (private if name.startswith("_") else queue).append(((*path, name), part))
    return found


def _spoken(path: tuple[str, ...]) -> str:
    """A path as a name: what lies behind something private is its owner's."""
    words = [w for w in path if w]
    if any(w.startswith("_") for w in words):
        words = [words[0], words[-1]]
    return ".".join([w.strip("_") for w in words])


def _named(x: Any) -> Iterator[tuple[str, Any]]:
    """The parameters and buffers of a module."""
    for members in ("named_parameters", "named_buffers"):
        found: Any = getattr(x, members, None)
        if not isinstance(x, type) and callable(found):
            yield from cast("Iterator[tuple[str, Any]]", found())


def _reached(f: Any) -> Iterator[tuple[str, Any]]:
    """What the code of `f` names: its owner, its closure, the globals that it uses."""
    owner = getattr(f, "__self__", None)
    if owner is not None:
        yield "", owner
        f = getattr(f, "__func__", f)
    code = getattr(f, "__code__", None)
    if code is None:
        yield "", f
        return
    for name, cell in zip(code.co_freevars, getattr(f, "__closure__", None) or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing in it yet
            continue
    known: Mapping[str, Any] = getattr(f, "__globals__", {})
    yield from [(name, known[name]) for name in code.co_names if name in known]


def _parts(x: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, by name."""
    if isinstance(x, str | bytes | int | float | type | ModuleType):
        return
    if isinstance(x, Mapping):
        pairs = cast("Mapping[Any, Any]", x).items()
        yield from [(str(k), v) for k, v in pairs if isinstance(k, str | int)]
    elif isinstance(x, list | tuple | set | frozenset):
        yield from [(str(i), v) for i, v in enumerate(cast("Iterable[Any]", x))]
    elif hasattr(x, "__code__"):
        yield from _reached(x)
    elif hasattr(x, "__dict__"):
        yield from cast("dict[str, Any]", vars(x)).items()
