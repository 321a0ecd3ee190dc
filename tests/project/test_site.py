"""The documentation as a site: it builds without a warning, and every page can be reached."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
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


def test_examples_and_shapes_are_marked_as_code_once(site: Path) -> None:
    for page in (site / "reference").glob("*.html"):
        text = re.sub("<[^>]*>", "", page.read_text(encoding="utf-8"))
        assert "```" not in text and "``" not in text, page.name


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    import chainrule as cr

    text = (site / "reference" / "chainrule.html").read_text(encoding="utf-8")
    missing = [n for n in ("grad", "jit", "Tensor", "exp", "softmax", "record") if n not in dir(cr)]
    assert not missing
    names = [
        n for n in dir(cr) if not n.startswith("_") and not isinstance(getattr(cr, n), type(os))
    ]
    assert [n for n in names if f">{n}<" not in text and f"{n}</span>" not in text] == []


class Entry(HTMLParser):
    """The text of a page, by the name of the object that it describes."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self._name = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "h3":
            self._name = dict(attrs)["id"]

    def handle_data(self, data: str) -> None:
        self.texts[self._name] = self.texts.get(self._name, "") + data


def classes_of(module: str) -> dict[str, Any]:
    """The public classes of a module, by full name; errors, which nobody makes, apart."""
    space = import_module(module)
    found = [getattr(space, n) for n in getattr(space, "__all__", None) or dir(space)]
    ours = [x for x in found if inspect.isclass(x) and x.__module__.startswith("chainrule.")]
    return {f"{x.__module__}.{x.__qualname__}": x for x in ours if not issubclass(x, BaseException)}


SPACES = ("chainrule", *(f"chainrule.{x}" for x in ("nn", "optim", "data", "models.gpt", "show")))


def lacking(text: str, cls: Any) -> list[str]:
    """What the entry of a class does not say: arguments, defaults, the shapes of its `forward`."""
    shown = re.search(rf"^{cls.__name__}(\(.*?\))(?: -> [^\n]*)?\n\s*\n", text, re.M | re.S)
    stated = ast.parse(f"def f{shown[1] if shown else '()'}: pass").body[0]
    assert isinstance(stated, ast.FunctionDef)
    names = stated.args.posonlyargs + stated.args.args + stated.args.kwonlyargs
    names += [x for x in (stated.args.vararg, stated.args.kwarg) if x]
    defaults = len(stated.args.defaults) + sum(x is not None for x in stated.args.kw_defaults)
    wanted = inspect.signature(cls).parameters.values()
    missing = [p.name for p in wanted if p.name not in {x.arg for x in names}]
    if defaults != sum(p.default is not p.empty for p in wanted):
        missing.append("defaults")
    shapes = "Shapes:" in (getattr(getattr(cls, "forward", None), "__doc__", None) or "")
    return missing + ["shapes"] * (shapes and "Shapes:" not in text)


@pytest.mark.parametrize("module", SPACES)
def test_classes_are_shown_with_their_arguments_and_shapes(site: Path, module: str) -> None:
    texts = Entry(site / "reference" / f"{module}.html").texts
    classes = classes_of(module)
    assert classes
    assert sorted(classes.keys() - texts.keys()) == []
    found = {name: lacking(texts[name], cls) for name, cls in classes.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_an_argument_that_is_not_shown_is_seen() -> None:
    from chainrule import nn

    whole = "ELU(alpha: float = 1.0) -> None\n\nShapes: (*s) -> (*s)."
    assert lacking(whole, nn.ELU) == []
    assert lacking(whole.replace(" = 1.0", ""), nn.ELU) == ["defaults"]
    assert lacking("ELU\nx where positive", nn.ELU) == ["alpha", "defaults", "shapes"]
