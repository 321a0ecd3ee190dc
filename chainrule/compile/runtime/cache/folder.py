"""The folder of cache entries: what is in it by name, and who may have written it.

    entry := magic mac body          8 bytes, 24 bytes, the rest

`mac` is a keyed digest of the entry's name and its body, under a key that only this user can read
(see `key.py`). So an entry that somebody else wrote, or that was moved to another name, cut
or changed, is none. It is read as bytes and thrown away. Nothing is loaded before the digest
agrees.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import final

from chainrule.compile.runtime.cache.key import ForeignError, key, refuse_foreign
from chainrule.errors import CacheWarning
from chainrule.files.regular_files import NO_LINK, open_regular

LIMIT = 512 << 20
"""Bytes that a folder may hold; beyond, what was not used for longest is removed."""

_ENTRY, _PART = ".chainrule-code", ".chainrule-part"
_MAGIC = b"CRcode2\n"
_MAC = 24
_ABANDONED = 3600 * 10**9
"""Nanoseconds after which a part that nobody renamed was left by a process that was killed."""


@final
@dataclass(frozen=True, slots=True)
class Folder:
    """Entries by name, of `limit` bytes altogether at most. Any number of processes may use it.

    A folder that cannot be read or written is an empty one; so is one that others can write, with
    a warning. A damaged entry is none.
    """

    path: Path
    limit: int = LIMIT

    def get(self, name: str) -> bytes | None:
        """What was put there under that name, None if nothing was."""
        try:
            refuse_foreign(self.path, self.path.lstat())
            secret = key(make=False)
            return None if secret is None else self._read(name, secret)
        except ForeignError as reason:
            _warn(f"{reason}, so that nothing in it is run")
        except (OSError, RuntimeError):
            pass
        return None

    def _read(self, name: str, secret: bytes) -> bytes | None:
        path = self.path / f"{name}{_ENTRY}"
        handle, stat = open_regular(path, NO_LINK)
        with os.fdopen(handle, "rb") as file:
            refuse_foreign(path, stat)
            if stat.st_size > self.limit or file.read(len(_MAGIC)) != _MAGIC:
                return None
            mac, body = file.read(_MAC), file.read(stat.st_size)
        with suppress(OSError):
            os.utime(path)  # used now: `_trim` goes by this
        return body if compare_digest(_mac(secret, name, body), mac) else None

    def put(self, name: str, body: bytes) -> None:
        """Keep `body` under that name, if it can be kept."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_foreign(self.path, self.path.lstat())
            secret = key(make=True)
            if secret is not None:
                self._write(name, _MAGIC + _mac(secret, name, body) + body)
        except ForeignError as reason:
            _warn(f"{reason}, so that compiled code is not kept")
        except (OSError, RuntimeError):
            pass

    def _write(self, name: str, data: bytes) -> None:
        """Nothing is flushed to the disk: what a crash of the machine cuts is no entry."""
        import tempfile

        handle, part = tempfile.mkstemp(_PART, dir=self.path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(part).replace(self.path / f"{name}{_ENTRY}")  # at once, for whoever reads
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        self._trim()

    def _trim(self) -> None:
        """Remove what was not used for longest, until the rest is within the limit."""
        found = sorted(self._sizes(), reverse=True)
        total, abandoned = 0, time.time_ns() - _ABANDONED
        for used, size, path in found:
            total += size
            if total > self.limit or (path.suffix == _PART and used < abandoned):
                with suppress(OSError):
                    path.unlink()

    def _sizes(self) -> Iterator[tuple[int, int, Path]]:
        """When each file of ours was last used, its size, its path; others are none of ours."""
        for entry in os.scandir(self.path):
            if entry.name.endswith((_ENTRY, _PART)):
                with suppress(OSError):  # another process removed it
                    stat = entry.stat(follow_symlinks=False)
                    yield stat.st_mtime_ns, stat.st_size, Path(entry.path)


def folder() -> Folder | None:
    """The folder that the environment names; None where it says that there is none."""
    own = os.environ.get("CHAINRULE_CACHE_DIR")
    if own is not None:
        return Folder(Path(own)) if own else None
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Folder((Path(base) if base else Path.home() / ".cache") / "chainrule")
    except RuntimeError:  # nobody's home is known
        return None


def _mac(secret: bytes, name: str, body: bytes) -> bytes:
    digest = blake2b(key=secret, digest_size=_MAC, person=b"chainrule-cache")
    digest.update(f"{name}\n".encode())
    digest.update(body)
    return digest.digest()


_warned: set[str] = set()


def _warn(reason: str) -> None:
    """Say once why a folder or an entry is not used."""
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(
            f"{reason}: let it belong to you alone (chmod go-w), or name a folder of your own in "
            "CHAINRULE_CACHE_DIR",
            CacheWarning,
            stacklevel=2,
        )
