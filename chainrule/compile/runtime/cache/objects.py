"""Object files that no program is made of, kept beside those of programs."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.compile.runtime.cache.folder import folder
from chainrule.compile.runtime.cache.surroundings import digest_of, here, surroundings


def kept_object(name: str, make: Callable[[], bytes]) -> bytes:
    """The object file that `make` makes for this machine, of nothing but the package's source."""
    home = folder()
    if home is None:
        return make()
    entry = f"{name}-{digest_of(surroundings(here()))}"
    found = home.get(entry)
    if found is None:
        found = make()
        home.put(entry, found)
    return found
