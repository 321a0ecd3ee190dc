"""Pages in Chromium, from files, with the network off."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: install chromium"
)


@contextmanager
def launched() -> Iterator[Any]:
    """A browser. Skips where Playwright is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


DRAWN = "header, [role=alert], iframe"
"""What a page has once it has drawn itself."""


def visit(page: Any, url: str, ready: str = DRAWN) -> None:
    """Go to a page and wait until it has drawn itself."""
    page.goto("about:blank")
    page.goto(url)
    page.locator(ready).first.wait_for()


@contextmanager
def opened(
    browser: Any, url: str, before: str = "", ready: str = DRAWN, **options: Any
) -> Iterator[Any]:
    """A page at `url`, offline, which must neither complain nor ask for anything."""
    options = {"viewport": {"width": 1280, "height": 900}, "offline": True} | options
    context = browser.new_context(**options)
    page, wrong, asked = context.new_page(), list[str](), list[str]()
    page.set_default_timeout(10_000)
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith(("file:", "blob:", "about:", "data:")) else asked.append(r.url)
        ),
    )
    if before:
        page.add_init_script(before)
    visit(page, url, ready)
    yield page
    assert not wrong, wrong
    assert not asked, asked
    context.close()
