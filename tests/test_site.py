"""The documentation as a site: it builds without a warning, and every page can be reached."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
BUILD = """
import logging, sys
from mkdocs.commands.build import build
from mkdocs.config import load_config

logging.basicConfig(level=logging.WARNING)
build(load_config("mkdocs.yml", extra={"run_steps": False}, site_dir=sys.argv[1]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, its steps without what they print."""
    folder = tmp_path_factory.mktemp("site")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, env=env, check=True)
    return folder


class References(HTMLParser):
    """What a page names: the targets of its links, and the sources of what it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        loads = values.get("src") or (values.get("href") if tag == "link" else None)
        if loads:
            self.loaded.append(loads)


def test_links_lead_to_pages_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = [p for p in site.rglob("*.html") if p.name != "404.html"]
    assert len(pages) > 30
    for page in pages:
        found = References(page)
        for target in [*found.links, *found.loaded]:
            parts = urlsplit(target)
            if not parts.scheme and not parts.netloc and parts.path:
                assert (page.parent / unquote(parts.path)).exists(), f"{page.name}: {target}"
        assert not [x for x in found.loaded if urlsplit(x).netloc], page.name


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    import chainrule as cr

    text = (site / "reference" / "chainrule.html").read_text(encoding="utf-8")
    missing = [n for n in ("grad", "jit", "Tensor", "exp", "softmax", "record") if n not in dir(cr)]
    assert not missing
    names = [
        n for n in dir(cr) if not n.startswith("_") and not isinstance(getattr(cr, n), type(os))
    ]
    assert [n for n in names if f">{n}<" not in text and f"{n}</span>" not in text] == []
