"""GPT-2's tokenizer: byte pairs that are merged in a fixed order, read from its two files.

Text is cut into words (with the space before them), numbers, runs of other signs and of spaces. The
bytes of each are merged, pair by pair, always the pair that stands first in `merges.txt`. Sennrich
et al. 2016, arXiv:1508.07909; Radford et al. 2019, section 2.2.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast, final

from chainrule.errors import ConfigError
from chainrule.files.regular_files import read_regular
from chainrule.files.strict_json import loads

_ENDINGS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
_LARGEST = 64 << 20


def _letters() -> dict[int, str]:
    """A visible letter for each byte: itself where it is one, else one beyond 255, in order."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


LETTERS = _letters()
BYTES = {letter: b for b, letter in LETTERS.items()}


@final
class BPETokenizer:
    """Tokens of text and text of tokens: `encode(decode(tokens))` need not be the tokens, but
    `decode(encode(text))` is the text.

    >>> from chainrule.data.bpe import LETTERS  # a symbol for each byte
    >>> vocab = {letter: byte for byte, letter in LETTERS.items()} | {"ab": 256}
    >>> tokenizer = cr.data.BPETokenizer(vocab, [("a", "b")])
    >>> tokenizer.encode("abba"), tokenizer.decode([256, 98])
    ([256, 98, 97], 'abb')
    """

    def __init__(self, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
        self._ids = dict(vocab)
        self._tokens = {i: token for token, i in vocab.items()}
        if len(self._tokens) != len(self._ids):
            raise ConfigError("BPETokenizer: two tokens have one number")
        self._rank = {pair: i for i, pair in enumerate(merges)}
        missing = [a for a in LETTERS.values() if a not in self._ids]
        missing += [a + b for a, b in merges if a + b not in self._ids]
        if missing:
            raise ConfigError(
                f"BPETokenizer: {len(missing)} tokens have no number, {missing[0]!r} say"
            )
        self._known: dict[str, list[int]] = {}

    @classmethod
    def load(cls, folder: str | Path) -> BPETokenizer:
        """From `vocab.json` and `merges.txt` (or GPT-2's `encoder.json` and `vocab.bpe`)."""
        folder = Path(folder)
        first = ("vocab.json", "merges.txt")
        names = first if (folder / first[0]).exists() else ("encoder.json", "vocab.bpe")
        raw = [_read(folder / name) for name in names]
        try:
            vocab = loads(raw[0], _LARGEST)
        except ValueError as cause:
            raise ConfigError(f"{folder / names[0]} {cause}") from cause
        if not isinstance(vocab, dict) or not all(
            type(i) is int and i >= 0 for i in cast("dict[str, Any]", vocab).values()
        ):
            raise ConfigError(f"{folder / names[0]} is no object of tokens and their numbers")
        return cls(cast("dict[str, int]", vocab), _merges(folder / names[1], raw[1]))

    @property
    def vocab_size(self) -> int:
        """One more than the largest number of a token."""
        return max(self._tokens) + 1

    def encode(self, text: str) -> list[int]:
        """The tokens of `text`: of its UTF-8 bytes, so that every text has some."""
        found: list[int] = []
        for piece in pieces(text):
            if piece not in self._known:
                letters = [LETTERS[b] for b in piece.encode("utf-8", "surrogatepass")]
                self._known[piece] = [self._ids[t] for t in self._merge(letters)]
            found += self._known[piece]
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; bytes that are no text become U+FFFD.

        Raises `ConfigError` for a number that no token has.
        """
        unknown = [t for t in tokens if int(t) not in self._tokens]
        if unknown:
            raise ConfigError(f"BPETokenizer: no token has the number {unknown[0]}")
        letters = "".join([self._tokens[int(t)] for t in tokens])
        return b"".join([bytes([BYTES[c]]) if c in BYTES else c.encode() for c in letters]).decode(
            "utf-8", "replace"
        )

    def _merge(self, word: list[str]) -> list[str]:
        """The word after all merges, the earliest pair of the list first."""
        while len(word) > 1:
            pairs = set(pairwise(word))
            best = min(pairs, key=lambda p: self._rank.get(p, len(self._rank)))
            if best not in self._rank:
                return word
            joined: list[str] = []
            for part in word:
                if joined and (joined[-1], part) == best:
                    joined[-1] += part
                    # what was joined does not join again in this turn: mark it by its length
                    joined.append("")
                else:
                    joined.append(part)
            word = [part for part in joined if part]
        return word


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, _LARGEST)
    except OSError as cause:
        raise ConfigError(f"{path} cannot be read: {cause.strerror or cause}") from cause


def _merges(path: Path, raw: bytes) -> list[tuple[str, str]]:
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as cause:
        raise ConfigError(f"{path} is not UTF-8 text") from cause
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        parts = line.rstrip("\r").split(" ")
        if len(parts) != 2 or not all(parts):
            raise ConfigError(f"{path}: line {number} is no pair: {line!r:.60}")
        pairs.append((parts[0], parts[1]))
    return pairs


def _kind(c: str) -> str:
    """L a letter, N a number, S a space, O another sign."""
    if c.isspace():
        return "S"
    first = unicodedata.category(c)[0]
    return first if first in "LN" else "O"


def pieces(text: str) -> Iterator[str]:
    """The text cut as GPT-2 cuts it.

    >>> list(pieces("it's  two 42!\\n"))
    ['it', "'s", ' ', ' two', ' 42', '!', '\\n']
    """
    at, n = 0, len(text)
    kinds = [_kind(c) for c in text]
    while at < n:
        ending = next((e for e in _ENDINGS if text.startswith(e, at)), None)
        if ending is not None:
            yield ending
            at += len(ending)
            continue
        begin = at + (text[at] == " " and at + 1 < n and kinds[at + 1] != "S")
        end, kind = begin, kinds[begin]
        while end < n and kinds[end] == kind:
            end += 1
        if kind == "S" and end < n and end - at > 1:
            end -= 1  # the last space belongs to what follows
        yield text[at:end]
        at = end
