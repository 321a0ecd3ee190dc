"""One nursery for all cases of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parallel.running import Nursery, nursery


@pytest.fixture(scope="module")
def workers() -> Iterator[Nursery]:
    with nursery() as made:
        yield made
