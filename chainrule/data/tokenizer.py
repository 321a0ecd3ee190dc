"""A tokenizer of single characters, with one more token that begins and ends every document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chainrule.errors import ConfigError


@final
@dataclass(frozen=True)
class CharTokenizer:
    """Characters in sorted order are tokens 0, 1, ..; the last token, `bos`, is no character.

    >>> tokenizer = cr.data.CharTokenizer.of(["bob", "ann"])
    >>> tokenizer.encode("ban"), tokenizer.bos, tokenizer.vocab_size
    ([1, 0, 2], 4, 5)
    """

    characters: str
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.characters or list(self.characters) != sorted(set(self.characters)):
            raise ConfigError("a tokenizer needs characters in sorted order, each once")
        object.__setattr__(self, "_ids", {c: i for i, c in enumerate(self.characters)})

    @classmethod
    def of(cls, documents: Iterable[str]) -> CharTokenizer:
        """The tokenizer of the characters that occur in `documents`."""
        return cls("".join(sorted({c for document in documents for c in document})))

    @property
    def bos(self) -> int:
        """The token at both ends of every document."""
        return len(self.characters)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, `bos` included."""
        return len(self.characters) + 1

    def encode(self, text: str) -> list[int]:
        """Tokens of the characters of `text`; raises `ConfigError` for one that has no token."""
        try:
            return [self._ids[c] for c in text]
        except KeyError as cause:
            known = self.characters if len(self.characters) <= 80 else self.characters[:77] + "..."
            raise ConfigError(
                f"the character {cause.args[0]!r} in {text!r} is unknown to the tokenizer, which "
                f"knows {known!r}"
            ) from None

    def document(self, text: str) -> list[int]:
        """Tokens of `text` between two `bos`."""
        return [self.bos, *self.encode(text), self.bos]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without `bos`."""
        return "".join([self.characters[t] for t in tokens if t != self.bos])

    def to_dict(self) -> dict[str, Any]:
        """What `from_dict` needs, fit for JSON."""
        return {"kind": "characters", "characters": self.characters}

    @classmethod
    def from_dict(cls, saved: Any) -> CharTokenizer:
        """The tokenizer that `to_dict` described; raises `ConfigError` if it is none."""
        match saved:
            case {"kind": "characters", "characters": str(characters)}:
                return cls(characters)
            case _:
                raise ConfigError(f"this describes no tokenizer of characters: {saved!r:.80}")
