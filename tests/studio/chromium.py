"""Pages in Chromium, from files, with the network off."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium: install chromium"
)


@final
class Browser:
    """A browser. Pages of equal options are one page, which visits one address after the other."""

    def __init__(self, found: Any) -> None:
        self._found = found
        self._pages: dict[str, Tab] = {}

    def tab(self, before: str, options: dict[str, Any]) -> Tab:
        """A page that runs `before` first wherever it goes."""
        key = repr((before, sorted(options.items())))
        if key not in self._pages:
            context = self._found.new_context(**options)
            self._pages[key] = Tab(context.new_page(), before)
        return self._pages[key]


@final
class Tab:
    """A page, its complaints, and the addresses that it asked for."""

    def __init__(self, page: Any, before: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.set_default_timeout(60_000)
        page.on("console", self._add_message)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))
        page.on("request", self._add_request)
        if before:
            page.add_init_script(before)

    def _add_message(self, m: Any) -> None:
        if m.type in ("error", "warning"):
            self.complaints.append(m.text)

    def _add_request(self, r: Any) -> None:
        if not r.url.startswith(("file:", "blob:", "about:", "data:")):
            self.requests.append(r.url)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser. Skips where Playwright is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as p:
        found = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Browser(found)
        found.close()


DRAWN = "header, [role=alert], iframe"
"""What a page has once it has drawn itself."""


def visit(page: Any, url: str, ready: str = DRAWN) -> None:
    """Go to a page and wait until it has drawn itself."""
    page.goto("about:blank")
    page.goto(url)
    page.locator(ready).first.wait_for()
    painted(page)


def painted(page: Any) -> None:
    """Wait for the first picture of every graph that is in the page now."""
    page.locator(".graph[aria-busy]:visible").first.wait_for(state="detached")


def settled(page: Any) -> None:
    """Two frames, so that what was asked for is painted."""
    page.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
    painted(page)


def address(page: Any) -> str:
    """The address, with the page's state in it: as it is when a reader leaves."""
    page.evaluate("dispatchEvent(new Event('pagehide'))")
    return page.evaluate("location.href")


@contextmanager
def opened(
    browser: Browser, url: str, before: str = "", ready: str = DRAWN, **options: Any
) -> Iterator[Any]:
    """A page at `url`, offline, which must neither complain nor ask for anything."""
    options = {"viewport": {"width": 1280, "height": 900}, "offline": True} | options
    tab = browser.tab(before, options)
    tab.page.set_viewport_size(options["viewport"])
    tab.complaints.clear()
    tab.requests.clear()
    visit(tab.page, url, ready)
    yield tab.page
    assert not tab.complaints, tab.complaints
    assert not tab.requests, tab.requests
    tab.page.goto("about:blank")
