"""One browser and one studio for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chainrule.studio.play import studio_page
from tests.studio.chromium import Browser, launched


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="package")
def studio(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the studio's page."""
    file = tmp_path_factory.mktemp("studio") / "studio.html"
    file.write_text(studio_page(), encoding="utf-8")
    return file.as_uri()
