"""Whether a page shuts somebody out: axe, in light and in dark."""

from __future__ import annotations

from typing import Any

import pytest

SCHEMES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}
"""Of axe's rules colours alone depend on the scheme."""
RUN = "async (options) => (await axe.run({resultTypes: ['violations'], ...options})).violations"


def check_page(page: Any, what: str) -> None:
    """Fail where axe finds something; the page is in its light colours afterwards."""
    code = pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT
    # a canvas is described once it is drawn
    page.wait_for_function("() => !document.querySelector('canvas[role=img]:not([aria-label])')")
    if page.evaluate("() => globalThis.axe === undefined"):
        page.evaluate(code)
    for scheme, options in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(RUN, options)
        problems = [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found]
        assert not found, (what, scheme, problems)
    page.emulate_media(color_scheme="light")
