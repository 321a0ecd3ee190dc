"""Mad values, and changes of JSON, of safetensors files and of bytes, drawn from a seed.

Each function takes a `random.Random`, and says in a word what it did.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

DEEP = "[" * 100_000
"""As a value: a text that nests deeper than any reader's stack."""
VALUES: list[Any] = [
    float("nan"), float("inf"), -float("inf"), 1e29, 10**29, 10**400, -1, 0, 2**63, 2**60, 1.5,
    -0.0, 5e-324, "", "x" * 1000, "\0", "\ud800", "nan", "1", True, False, None, [], {}, [[]],
    [None], [1] * 1000, {"a": 1}, [10**18, 10**18], [0, 2**62], "../../etc/passwd", "/dev/zero",
]  # fmt: skip
"""What is put where another value was."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values within a JSON value; of a long list, to the first five."""
    found = [path]
    if isinstance(value, dict):
        found += [p for k, v in value.items() for p in places(v, (*path, k))]
    elif isinstance(value, list):
        found += [p for i, v in enumerate(value[:5]) for p in places(v, (*path, i))]
    return found


def changed(rng: random.Random, value: Any) -> tuple[Any, str]:
    """A JSON value with one to three of its parts replaced, removed, renamed, or added to."""
    value, words = json.loads(json.dumps(value)), list[str]()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(places(value)[1:] or [()])
        if not path:
            return rng.choice(VALUES), "replaced as a whole"
        *lead, last = path
        holder = value
        for key in lead:
            holder = holder[key]
        how = rng.choice(("replace", "replace", "replace", "remove", "rename", "double"))
        if how == "replace":
            holder[last] = rng.choice(VALUES)
        elif how == "double" and isinstance(holder, list):
            holder.append(holder[last])
        elif how == "rename" and isinstance(holder, dict):
            holder[f"{last}x"] = holder.pop(last)
        else:
            del holder[last]
        words.append(f"{how} {'.'.join(map(str, path))}")
    return value, ", ".join(words)


def text_of(rng: random.Random, value: Any) -> tuple[bytes, str]:
    """JSON of a value; now and then JSON that only a lenient reader takes."""
    text = json.dumps(value)
    how = rng.choice(("as it is",) * 6 + ("deep", "twice", "utf-16", "mark", "cut", "two"))
    if how == "deep":
        text = text.replace("1", DEEP, 1)
    elif how == "twice" and isinstance(value, dict) and value:
        key = json.dumps(rng.choice(list(value)))
        text = f"{{{key}: 1, {text.lstrip()[1:]}"
    elif how == "cut":
        text = text[: rng.randrange(len(text))]
    elif how == "two":
        text *= 2
    raw = text.encode("utf-16" if how == "utf-16" else "utf-8", "surrogatepass")
    return (b"\xef\xbb\xbf" + raw if how == "mark" else raw), how


def tensors(rng: random.Random, raw: bytes) -> tuple[bytes, str]:
    """A safetensors file whose header says something else than its data."""
    size = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    how = rng.choice(("header", "header", "header", "length", "data", "bytes", "swap"))
    if how == "length":
        length = rng.choice((0, 1, size - 1, size + 1, len(raw), 2**31, 2**60, 2**64 - 1))
        return length.to_bytes(8, "little") + raw[8:], f"length {length}"
    if how == "data":
        return resized(rng, raw)
    if how == "bytes":
        return flipped(rng, raw)
    if how == "swap":
        a, b = rng.choices([k for k in header if k != "__metadata__"], k=2)
        header[a], header[b] = header[b], header[a]
        word = f"swap {a}, {b}"
    else:
        header, word = changed(rng, header)
    text, how = text_of(rng, header)
    return len(text).to_bytes(8, "little") + text + data, f"{word} ({how})"


def resized(rng: random.Random, raw: bytes) -> tuple[bytes, str]:
    """Bytes that are cut, or longer."""
    if rng.random() < 0.5:
        end = rng.randrange(len(raw))
        return raw[:end], f"cut at {end}"
    return raw + rng.randbytes(rng.choice((1, 8, 4096))), "longer"


def flipped(rng: random.Random, raw: bytes) -> tuple[bytes, str]:
    """Bytes of which some are others."""
    out = bytearray(raw)
    at = [rng.randrange(len(out)) for _ in range(rng.choice((1, 4, 64)))] if raw else []
    for i in at:
        out[i] = rng.randrange(256)
    return bytes(out), f"bytes {at[:4]}"


def replaced(rng: random.Random, raw: bytes, hostile: bytes) -> tuple[bytes, str]:
    """Other bytes altogether; `hostile` would run code if it were loaded as what it is."""
    words = ("hostile", "random", "zeros", "empty")
    how = rng.choice(words)
    made = (hostile, rng.randbytes(len(raw)), bytes(len(raw)), b"")
    return made[words.index(how)], how


Change = Callable[[random.Random, bytes], tuple[bytes, str]]
