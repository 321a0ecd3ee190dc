"""`chainrule play`: the studio as one HTML file, opened in a browser."""

from __future__ import annotations

import argparse
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from chainrule.cli.files import CommandError
from chainrule.cli.options import integer

EXAMPLES = """examples:
  chainrule play                                 the studio: expressions, training, slips, lessons
  chainrule play expr 'relu(a*b + d)' a=2 b=-3 d=10
  chainrule play train.py                        one step of an unmodified script
  chainrule play run.json                        a trace that was saved
  chainrule play --save page.html --no-browser   write the file only

options stand before WHAT: what follows a script is the script's
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--save", metavar="FILE", help="write the page to this file")
    add("--no-browser", action="store_true", help="do not open a browser")
    add("--step", type=integer, default=1, metavar="K", help="which step of a script, from 1")
    add("what", nargs="?", metavar="WHAT", help="`expr`, a script, or a trace; else the studio")
    add("args", nargs=argparse.REMAINDER, metavar="...", help="of the expression or the script")


def command(asked: Mapping[str, Any], console: Console) -> int:
    """Write the page and open it; the exit code 0."""
    from chainrule.studio.play import address  # with NumPy and the compiler

    if asked["step"] < 1:
        raise CommandError(f"--step {asked['step']}: steps are counted from 1")
    document, state = _document(asked["what"], asked["args"], asked["step"])
    file = _target(asked.get("save"))
    from chainrule.files.whole_files import write_whole

    write_whole(file, document)
    where = f"{file.resolve().as_uri()}{'#' if state else ''}{address(state)}"
    console.print(where, soft_wrap=True, highlight=False)
    if not asked.get("no_browser"):
        webbrowser.open_new_tab(where)
    return 0


def _target(save: str | None) -> Path:
    if save is None:
        return Path(tempfile.mkdtemp(prefix="chainrule-play-")) / "play.html"
    file = Path(save)
    if file.suffix not in (".html", ".htm"):
        raise CommandError(f"--save {save}: a page is an .html file")
    if not file.parent.is_dir():
        raise CommandError(f"--save {save}: there is no folder {file.parent}")
    return file


def _document(what: str | None, args: Sequence[str], step: int) -> tuple[str, dict[str, str]]:
    """The page, and the state in which it opens."""
    from chainrule.studio.play import studio_page

    if what is None:
        return studio_page(), {}
    if what == "expr":
        return studio_page(), _expression(args)
    path = Path(what)
    if path.is_file() and path.suffix == ".json":
        from chainrule.traces.files import read_trace

        if args:
            raise CommandError(f"{what} is a trace, which takes no arguments: {' '.join(args)}")
        return studio_page(read_trace(path), "trace"), {}
    if path.is_file():
        from chainrule.traces.scripts import record_script

        return studio_page(record_script(path, args, step=step), "trace"), {}
    raise CommandError(
        f"there is no file {what}: play takes nothing, `expr EXPRESSION name=number ...`, a "
        "script (.py), or a trace (.json)"
    )


def _expression(what: Sequence[str]) -> dict[str, str]:
    if not what:
        raise CommandError("expr: an expression comes next, as in: expr 'relu(a*b + d)' a=2 b=-3")
    state = {"page": "expr", "e": what[0]}
    for text in what[1:]:
        name, sign, number = text.partition("=")
        if not (sign and name.isidentifier()):
            raise CommandError(f"expr: {text!r} is not of the form name=number")
        try:
            state[f"v.{name}"] = repr(float(number))
        except ValueError:
            raise CommandError(f"expr: {text!r}: {number!r} is not a number") from None
    return state
