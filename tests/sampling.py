"""The default run takes a sample of each sweep; `make sweep` runs the rest.

Under `@sampled("op", "dtype")` a test keeps enough cases that each value of each named parameter
occurs; under `@sampled(one_in=4)` it keeps every fourth case. `pytestmark = sampled_file(one_in=4)`
does so with all cases of a file together. All others get the marker `sweep`.
Cases are taken in the order of a checksum of their names: it is the same in every run, and mixes
the parameters. Folders within a part of the tests are no part of the name: a file that is moved to
one keeps its sample.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest


def sampled(
    *names: str, by: Callable[..., Any] | None = None, one_in: int = 0
) -> pytest.MarkDecorator:
    """Keep each value of each parameter in `names`, each `by(**parameters)`, and one in so many."""
    return pytest.mark.sampled(names=names, by=by, one_in=one_in, whole=False)


def sampled_file(*, one_in: int) -> pytest.MarkDecorator:
    """For `pytestmark`: keep one in so many of the file's cases."""
    return pytest.mark.sampled(names=(), by=None, one_in=one_in, whole=True)


def left_out(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases of decorated tests that the sample does without."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker("sampled")
        if marker is not None:
            end = "::" if marker.kwargs["whole"] else "["
            tests.setdefault(item.nodeid.partition(end)[0], []).append(item)
    for cases in tests.values():
        known: set[Any] = set()
        for n, item in enumerate(sorted(cases, key=_checksum)):
            shown = set(_shown(item, n)) - known
            if not shown:
                yield item
            known |= shown


def _checksum(item: pytest.Item) -> int:
    """Of `tests/ops/test_fft.py::test_x[case]` for `tests/ops/signal/test_fft.py::test_x[case]`."""
    path, separator, case = item.nodeid.partition("::")
    folders = path.split("/")
    return zlib.crc32(f"{'/'.join([*folders[:-1][:2], folders[-1]])}{separator}{case}".encode())


def _shown(item: Any, n: int) -> Iterator[Any]:
    """What the n-th case shows that the sample has to have."""
    names, by, one_in, _ = item.get_closest_marker("sampled").kwargs.values()
    yield from [(name, id(item.callspec.params[name])) for name in names]
    if by is not None:
        yield by(**item.callspec.params)
    if one_in and n % one_in == 0:
        yield n
