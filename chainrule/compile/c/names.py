"""Names in C: identifiers that nothing else has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, final

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
