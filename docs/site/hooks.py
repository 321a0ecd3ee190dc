"""What the site has beside the pages: the README as its first page, the steps with what they print,
and the reference of all public names.

Links of pages to files that are no pages (tests, modules) become plain text on the site.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the package of this tree

from chainrule.names.public_names import imports_of  # noqa: E402
from chainrule.ops.rows import Elementwise  # noqa: E402

COPIES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "bench/RESULTS.md": "results.md",
}
"""Pages that stand outside of docs/."""
MODULES = (
    "chainrule",
    "chainrule.nn",
    "chainrule.nn.functional",
    "chainrule.nn.init",
    "chainrule.optim",
    "chainrule.data",
    "chainrule.models.gpt",
    "chainrule.models.gpt2",
    "chainrule.models.mlp",
    "chainrule.models.scalar_gpt",
    "chainrule.linalg",
    "chainrule.fft",
    "chainrule.special",
    "chainrule.amp",
    "chainrule.show",
    "chainrule.explain",
    "chainrule.traces",
    "chainrule.verify",
    "chainrule.parallel",
)
_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made."""
    pages = {place: (ROOT / source).read_text(encoding="utf-8") for source, place in COPIES.items()}
    pages["steps.md"] = "".join(_steps(run=config.extra.get("run_steps", True)))
    pages["examples.md"] = "".join(_examples())
    pages |= {f"reference/{m}.md": page for m in MODULES if (page := _reference(m))}
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    _list_reference(config, [p for p in pages if p.startswith("reference/")])
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links to where pages are on the site."""
    place = page.file.src_uri
    sources = {made: source for source, made in COPIES.items()}
    source = ROOT / sources[place] if place in sources else ROOT / "docs" / place

    def replaced(match: re.Match[str]) -> str:
        picture, text, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        path, mark, anchor = target.partition("#")
        linked = _page_of((source.parent / path).resolve())
        if linked is None or files.get_file_from_path(linked) is None:
            return text
        return f"{picture}[{text}]({'../' * place.count('/')}{linked}{mark}{anchor})"

    return _LINK.sub(replaced, markdown)


def _page_of(file: Path) -> str | None:
    """The page of the site that shows a file of the repository."""
    try:
        name = file.relative_to(ROOT).as_posix()
    except ValueError:
        return None
    if name == "docs/steps" or (name.startswith("docs/steps/") and name.endswith(".py")):
        return "steps.md"
    if name.startswith("examples/"):
        return "examples.md"
    return COPIES.get(name, name.removeprefix("docs/") if name.startswith("docs/") else None)


def _steps(*, run: bool) -> Iterator[str]:
    """Each step: its text, and what it prints if it is to `run`."""
    yield "# Twenty-seven steps\n\nEach is a program that prints its numbers and checks them.\n"
    for step in sorted((ROOT / "docs" / "steps").glob("*.py")):
        text = step.read_text(encoding="utf-8")
        number, _, name = step.stem.partition("_")
        yield f"\n## {number}. {name.replace('_', ' ')}\n\n```python\n{text}```\n"
        if run:
            yield f"```text\n{_printed(step)}```\n"


def _examples() -> Iterator[str]:
    """Each example: its text."""
    yield "# Ten examples\n\nEach ends with a table or a picture, in less than two minutes.\n"
    for example in sorted((ROOT / "examples").glob("*.py")):
        text = example.read_text(encoding="utf-8")
        yield f"\n## {example.stem.replace('_', ' ')}\n\n```python\n{text}```\n"


def _printed(step: Path) -> str:
    """What a step prints."""
    done = subprocess.run(
        [sys.executable, step], cwd=ROOT, capture_output=True, text=True, check=False,
        encoding="utf-8", env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{step.name} failed:\n{done.stderr}")
    return done.stdout


def _reference(module: str) -> str:
    """The public names of a module, in the order of the alphabet; empty if it has none.

    Of a row of the op table there are its docstring and the statement that makes it; constants and
    dtypes are a table.
    """
    rows, entries = [], []
    for name, home in sorted(_homes(module).items(), key=lambda item: item[0].lower()):
        found = getattr(import_module(home), name, None)
        if name.startswith("_") or inspect.ismodule(found):
            continue
        if inspect.isclass(found) or inspect.isfunction(found):
            entries.append(f"\n::: {found.__module__}.{found.__qualname__}\n")
        elif isinstance(found, Elementwise):
            entries.append(_row_entry(name, home, found))
        else:
            rows.append(f"| `{name}` | {_stated(name, home, found)} |\n")
    head = "\n| name | its value |\n|---|---|\n"
    table = head if rows else ""
    return f"# {module}\n" + table + "".join(rows) + "".join(entries) if rows or entries else ""


def _homes(module: str) -> dict[str, str]:
    """By public name of a module, the module that it is from.

    Public is what it lists; else what it defines; else, of a module that defines nothing, what it
    imports.
    """
    space = import_module(module)
    listed = getattr(space, "__all__", None)
    found = {n: getattr(space, n) for n in listed or dir(space) if not n.startswith("_")}
    own = {n: module for n, x in found.items() if getattr(x, "__module__", None) == module}
    imported = {n: h for n, h in imports_of(module).items() if n in found}
    defines = [n for n in own if n not in imported]
    return own if defines and not listed else imported | own


def _row_entry(name: str, home: str, row: Elementwise) -> str:
    """The entry of a row of the op table: its docstring, an example, and what states it."""
    text, _, example = (row.__doc__ or "").partition("\n\n>>> ")
    text = re.sub(r"Shapes: (.*)\.", r"Shapes: `\1`.", text)
    statement = " ".join(_assignments(home).get(name, row.label).split())
    code = f"```pycon\n>>> {example}\n```\n" if example else ""
    return f"\n### `{name}`\n\n{text}\n\n{code}\n```python\n{name} = {statement}\n```\n"


def _stated(name: str, home: str, found: Any) -> str:
    """What its module assigns to a name, or its value."""
    statement = _assignments(home).get(name) or repr(found)
    return f"`{' '.join(statement.split())}`".replace("|", "\\|")


@cache
def _assignments(module: str) -> dict[str, str]:
    """The right sides of a module's assignments, by name."""
    file = find_spec(module)
    text = Path(file.origin).read_text(encoding="utf-8") if file and file.origin else ""
    return {
        target.id: ast.get_source_segment(text, node.value) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _list_reference(config: Any, places: list[str]) -> None:
    """Put the reference into the navigation, before what is about the project itself."""
    entry = {"Reference": [{Path(p).stem: p} for p in places]}
    if not any("Reference" in part for part in config.nav):
        config.nav.insert(4, entry)
