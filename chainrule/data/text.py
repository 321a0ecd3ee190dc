"""Documents from text: the names that come with the package, and any UTF-8 file with one a line.

A document is a line without the space around it; empty lines are none.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from chainrule.errors import ConfigError
from chainrule.files.regular_files import read_regular

NAMES_FILE = "us_census_1990_first_names.txt"


def load_names() -> list[str]:
    """The 5,163 first names of the 1990 census of the United States, most frequent first.

    Lower case, a to z. Source: US Census Bureau; public domain.

    >>> cr.data.load_names()[:3]
    ['james', 'john', 'robert']
    """
    text = resources.files("chainrule.data").joinpath(NAMES_FILE).read_text(encoding="utf-8")
    return documents_of(text)


def read_documents(path: str | Path) -> list[str]:
    """The documents of a UTF-8 text file, in its order.

    Raises `ConfigError` if there is no such file, if it is a folder or a device, cannot be read, is
    not text, or holds no document.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = pathlib.Path(place, "x.txt").write_text("one", encoding="utf-8")
    ...     print(cr.data.read_documents(f"{place}/x.txt"))
    ['one']
    """
    path = Path(path)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: give a text file, one document a line")
    if not path.exists():
        raise ConfigError(f"there is no file {path}: give a text file, one document a line")
    if not path.is_file():
        raise ConfigError(f"{path} is not a regular file: give a text file, one document a line")
    try:
        raw = read_regular(path, stop=b"\0")
    except OSError as cause:
        raise ConfigError(f"{path} cannot be read: {cause.strerror}") from cause
    docs = documents_of(_decode(raw, path))
    if not docs:
        raise ConfigError(f"{path} is empty: it needs at least two documents, one a line")
    return docs


def documents_of(text: str) -> list[str]:
    """The documents of a text.

    >>> documents_of("ann\\n\\n  bob \\n")
    ['ann', 'bob']
    """
    return [line.strip() for line in text.split("\n") if line.strip()]


def _decode(raw: bytes, path: Path) -> str:
    """The text of a file; an error that says where it stops being text."""
    zero = raw.find(b"\0")
    if zero >= 0:
        raise ConfigError(
            f"{path} is not a text file (byte {zero} is 0): give UTF-8 text, one document a line"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise ConfigError(
            f"{path} is not UTF-8 text (byte {cause.start} is {raw[cause.start]:#04x}): save it as "
            "UTF-8, one document a line"
        ) from None
